package com.example.plain;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.Writer;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class BackendTest {
  @Test
  void theBridgeDialsIt() throws Exception {
    int port = freePort();
    Path java = Path.of(System.getProperty("java.home"), "bin", "java");
    Process backend =
        new ProcessBuilder(
                java.toString(), "-cp", System.getProperty("java.class.path"), Backend.class.getName(), "" + port)
            .redirectErrorStream(true)
            .redirectOutput(Path.of("target", "backend-output").toFile())
            .start();
    // It may start before or after the bridge: calls wait for it.
    Process bridge =
        new ProcessBuilder("../../bin/mcpbridge", "run", "--stdio", "tcp:127.0.0.1:" + port)
            .redirectError(Path.of("target", "bridge-stderr").toFile())
            .start();
    try (BufferedReader out = bridge.inputReader();
        Writer in = bridge.outputWriter()) {
      in.write(
          """
          {"jsonrpc":"2.0","id":1,"method":"initialize",\
          "params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
          {"jsonrpc":"2.0","method":"notifications/initialized"}
          """);
      in.flush();
      assertResponse(out, "\"serverInfo\""); // Of the backend, unless it starts slowly.
      call(in, "add", "{\"a\":2,\"b\":40}");
      assertResponse(out, "\"text\":\"42\"");
      call(in, "add", "{\"a\":2}"); // The bridge validates arguments; the backend does not.
      assertResponse(out, "\"isError\":true");
      call(in, "subtract", "{}");
      assertResponse(out, "there is no tool 'subtract'");
    } finally {
      assertTrue(bridge.waitFor(20, TimeUnit.SECONDS));
      backend.destroy(); // SIGTERM.
      assertTrue(backend.waitFor(20, TimeUnit.SECONDS));
    }
    assertEquals(0, bridge.exitValue());
    assertEquals(0, backend.exitValue());
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0)) {
      return socket.getLocalPort();
    }
  }

  private static void call(Writer in, String tool, String arguments) throws IOException {
    in.write(
        "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\""
            + tool
            + "\",\"arguments\":"
            + arguments
            + "}}\n");
    in.flush();
  }

  private static void assertResponse(BufferedReader out, String what) throws IOException {
    String line;
    do { // Skip notifications.
      line = out.readLine();
    } while (line != null && !line.contains("\"id\":"));
    assertTrue(line != null && line.contains(what), line);
  }

  @Test
  void itIsShort() throws IOException {
    assertTrue(Files.readAllLines(Path.of("src/main/java/com/example/plain/Backend.java")).size() <= 70);
  }
}
