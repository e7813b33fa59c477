package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** Through the real bridge, with raw lines of MCP. */
class BridgeTest {
  private static final Path BRIDGE = Path.of("..", "..", "bin", "mcpbridge");

  private BufferedReader out;
  private Writer in;

  private Process start() throws IOException {
    assertTrue(Files.isExecutable(BRIDGE), "there is no bin/mcpbridge; run make build");
    List<String> command = new ArrayList<>(List.of(BRIDGE.toString(), "run", "--stdio", "--"));
    command.addAll(Plugin.java(Tools.class));
    Process process = new ProcessBuilder(command).redirectError(Path.of("target", "bridge-stderr").toFile()).start();
    out = process.inputReader();
    in = process.outputWriter();
    return process;
  }

  private void send(String line) throws IOException {
    in.write(line.replace('\'', '"') + "\n");
    in.flush();
  }

  private JsonNode read() throws IOException {
    String line = out.readLine();
    assertTrue(line != null, "the bridge said no more");
    return Json.MAPPER.readTree(line);
  }

  @Test
  void aLegacyClientIsAskedAndTold() throws Exception {
    Process process = start();
    try {
      send(
          "{'jsonrpc':'2.0','id':1,'method':'initialize','params':{'protocolVersion':'2025-11-25',"
              + "'capabilities':{'elicitation':{}},'clientInfo':{'name':'t','version':'1'}}}");
      assertEquals("Try it.", read().at("/result/instructions").asString());
      send("{'jsonrpc':'2.0','method':'notifications/initialized'}");

      send("{'jsonrpc':'2.0','id':2,'method':'tools/call','params':{'name':'greet','arguments':{'name':'Ada'}}}");
      JsonNode asked = read();
      assertEquals("elicitation/create", asked.get("method").asString());
      assertEquals("[\"RED\",\"GREEN\"]", asked.at("/params/requestedSchema/properties/colour/enum").toString());
      send("{'jsonrpc':'2.0','id':" + asked.get("id") + ",'result':{'action':'accept','content':{'colour':'GREEN'}}}");
      assertEquals("Ada likes GREEN", read().at("/result/content/0/text").asString());

      send("{'jsonrpc':'2.0','id':3,'method':'tools/call','params':{'name':'add','arguments':{'a':1,'b':200,'bb':1}}}");
      // The bridge may say it before we do.
      JsonNode wrong = read().get("result");
      String text = wrong.at("/content/0/text").asString();
      assertTrue(wrong.get("isError").asBoolean(), text);
      assertTrue(text.contains("b: ") && text.contains("200") && text.contains("bb: ") && text.contains("add(a: integer"), text);

      send("{'jsonrpc':'2.0','id':4,'method':'resources/read','params':{'uri':'test://items/100'}}");
      assertEquals(-32002, read().at("/error/code").asInt());

      send("{'jsonrpc':'2.0','id':5,'method':'tools/call','params':{'name':'exact'}}");
      assertEquals("{\"code\":-32042,\"message\":\"exactly this\",\"data\":{\"n\":9007199254740993}}", read().get("error").toString());

      send("{'jsonrpc':'2.0','id':6,'method':'tools/call','params':{'name':'grow','arguments':{'name':'extra'}}}");
      List<String> got = List.of(read().path("method").asString("result"), read().path("method").asString("result"));
      assertTrue(got.contains("notifications/tools/list_changed") && got.contains("result"), got::toString);
    } finally {
      in.close();
      assertTrue(process.waitFor(20, TimeUnit.SECONDS));
    }
    assertEquals(0, process.exitValue());
  }
}
