package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assertions.fail;

import dev.mcpbridge.testing.Client;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/** Through the real bridge. */
class BridgeTest {
  @Test
  void aLegacyClientAnswersAndIsNotified() throws Exception {
    List<JsonNode> asked = new ArrayList<>();
    try (Client client = Client.start(Tools.class)) {
      client.answers(
          (method, params) -> {
            assertEquals("elicitation/create", method);
            asked.add(params.at("/requestedSchema/properties/colour/enum"));
            return Map.of("action", "accept", "content", Map.of("colour", "GREEN"));
          });
      assertEquals("Ada likes GREEN", client.call("greet", Map.of("name", "Ada")).text());
      assertEquals("[[\"RED\",\"GREEN\"]]", asked.toString());

      assertEquals("{\"sum\":3}", client.call("add", Map.of("a", 1, "b", 2)).structured());
      // The bridge may report it first.
      var wrong = client.call("add", Map.of("a", 1, "b", 200, "bb", 1));
      String text = wrong.text();
      assertTrue(wrong.isError(), text);
      assertTrue(
          text.contains("b: ") && text.contains("200") && text.contains("bb: ") && text.contains("add(a: integer"),
          text);

      Map<String, String> missing = Map.of("uri", "test://items/100");
      assertEquals(
          -32002, assertThrows(Client.RpcException.class, () -> client.request("resources/read", missing)).code());
      var exact = assertThrows(Client.RpcException.class, () -> client.call("exact", Map.of()));
      assertEquals(
          "{\"code\":-31042,\"message\":\"exactly this\",\"data\":{\"n\":9007199254740993}}", exact.getMessage());

      assertEquals("done", client.call("steps", Map.of("n", 2)).text());
      assertEquals(0, client.awaitNotification("notifications/progress").path("progress").asInt(-1));

      client.call("grow", Map.of("name", "extra"));
      client.awaitNotification("notifications/tools/list_changed");
      assertEquals("extra", client.call("extra", Map.of()).text());

      // A call that ends the program gets a response, and the bridge restarts the program.
      assertEquals(
          "System.exit was called, which ended the backend", client.call("exits", Map.of("elsewhere", false)).text());
      client.awaitNotification("notifications/tools/list_changed");
      assertEquals("{\"sum\":3}", client.call("add", Map.of("a", 1, "b", 2)).structured());
    }
  }

  /** Requests a task until its status and message are these. */
  private static void until(Client client, String id, String status, String message) {
    JsonNode task = null;
    for (long end = System.nanoTime() + 60_000_000_000L; System.nanoTime() < end; ) {
      task = client.request("tasks/get", Map.of("taskId", id));
      if (task.path("status").asString("").equals(status)
          && task.path("statusMessage").asString("").equals(message)) {
        return;
      }
    }
    fail("the task is " + task);
  }

  /** Calls a tool as a task, and returns its id. */
  private static String begin(Client client, String tool) {
    var params = Map.of("name", tool, "arguments", Map.of(), "task", Map.of());
    return client.request("tools/call", params).path("task").path("taskId").asString();
  }

  @Test
  void theBridgeKeepsTasks() {
    try (Client client = Client.start(Tools.class)) {
      String id = begin(client, "report");
      until(client, id, "working", "reading");
      client.request("tasks/cancel", Map.of("taskId", id));
      until(client, id, "cancelled", "");

      client.answers((method, params) -> Map.of("action", "accept", "content", Map.of("value", "Ada")));
      String asks = begin(client, "book");
      until(client, asks, "input_required", "");
      var result = new Client.Result(client.request("tasks/result", Map.of("taskId", asks)));
      assertEquals("Booked for Ada", result.text());
      assertEquals(
          -32601, assertThrows(Client.RpcException.class, () -> client.call("book", Map.of())).code());
    }
  }

  /** The bridge answers initialize after 2 s, whether the backend has started or not. */
  @Test
  void aClientStartsWhenTheBackendHasStarted(@TempDir Path folder) {
    Path started = folder.resolve("started");
    List<String> command =
        new ArrayList<>(List.of("sh", "-c", "sleep 3; touch \"$0\"; exec \"$@\"", started.toString()));
    command.addAll(Plugin.java(Tools.class));
    try (Client client = Client.start(command)) {
      assertTrue(Files.exists(started));
      assertEquals("{\"sum\":3}", client.call("add", Map.of("a", 1, "b", 2)).structured());
    }
    List<String> never = List.of("sh", "-c", "sleep 3; exit 3");
    var e = assertThrows(AssertionError.class, () -> Client.start(never).close());
    assertTrue(e.getMessage().startsWith("the program did not start (see standard error)"), e.getMessage());
  }

  @Test
  void aMistakeIsReportedWithItsLine() throws IOException, InterruptedException {
    Path stderr = Files.createTempFile(Path.of("target"), "stderr", "");
    List<String> command =
        new ArrayList<>(List.of(System.getProperty("MCPBRIDGE_BIN"), "run", "--stdio", "--log-format", "text", "--"));
    command.addAll(Plugin.java(Broken.class));
    Process bridge = new ProcessBuilder(command).redirectError(stderr.toFile()).start();
    bridge.getOutputStream().close();
    assertEquals(7, bridge.waitFor());
    String text = Files.readString(stderr);
    String want =
        "Broken.java:9: Broken.upload, parameter 1 (InputStream file): JSON cannot be converted to InputStream;"
            + " use text,";
    assertTrue(text.lines().anyMatch(line -> line.contains(want)), text);
    assertTrue(text.contains("fix:   correct the error that it printed last on standard error"), text);
  }
}
