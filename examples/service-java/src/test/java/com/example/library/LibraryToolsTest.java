package com.example.library;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mcpbridge.App;
import dev.mcpbridge.Bridge;
import dev.mcpbridge.testing.Caller;
import java.io.BufferedReader;
import java.io.Writer;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class LibraryToolsTest {
  private static final String JAVA = "978-0-13-468599-1";

  @Test
  void booksAreLentAndRemoved() {
    Clock clock = Clock.fixed(Instant.parse("2026-11-20T12:00:00Z"), ZoneOffset.UTC);
    App app = Bridge.app("library", "1").add(new LibraryTools(Library.small(), clock));
    Caller caller = new Caller(app);
    assertTrue(caller.tool("search", Map.of("words", "java bloch")).structured().contains("Effective Java"));
    assertTrue(caller.tool("lend", Map.of("isbn", JAVA, "member", "Ada")).structured().endsWith("\"member\":\"Ada\",\"due\":\"2026-12-11\"}"));
    assertEquals("Effective Java is lent to Ada until 2026-12-11", caller.tool("lend", Map.of("isbn", JAVA, "member", "Bob")).text());
    assertTrue(caller.tool("lend", Map.of("isbn", "Effective Java", "member", " ")).text().contains("- isbn: does not match"));
    assertTrue(caller.resource("library://loans").result().getContents(0).getText().contains("Ada"));

    Map<String, String> c = Map.of("isbn", "978-0-13-110362-7");
    assertEquals("The user keeps The C Programming Language.", caller.answers(Caller.DECLINE).tool("remove", c).text());
    assertEquals("Removed The C Programming Language.", caller.answers(true).tool("remove", c).text());
  }

  @Test
  void itRunsBehindTheBridge() throws Exception {
    Path java = Path.of(System.getProperty("java.home"), "bin", "java");
    Process bridge =
        new ProcessBuilder(
                "../../bin/mcpbridge", "run", "--stdio", "--", java.toString(), "-cp", System.getProperty("java.class.path"), LibraryTools.class.getName())
            .redirectError(Path.of("target", "bridge-stderr").toFile())
            .start();
    try (BufferedReader out = bridge.inputReader();
        Writer in = bridge.outputWriter()) {
      in.write(
          """
          {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
          {"jsonrpc":"2.0","method":"notifications/initialized"}
          """);
      in.flush();
      assertTrue(out.readLine().contains("\"name\":\"library\""));
      in.write("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"search\",\"arguments\":{\"words\":\"goetz\"}}}\n");
      in.flush();
      String answer = out.readLine();
      assertTrue(answer.contains("\"structuredContent\":{\"result\":[{\"isbn\":\"978-0-321-34960-6\""), answer);
    }
    assertTrue(bridge.waitFor(20, TimeUnit.SECONDS));
    assertEquals(0, bridge.exitValue());
  }
}
