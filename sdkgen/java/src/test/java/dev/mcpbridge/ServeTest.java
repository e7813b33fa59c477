package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.CallToolResponse;
import dev.mcpbridge.v1.DiscoverRequest;
import dev.mcpbridge.v1.JsonRpcError;
import dev.mcpbridge.v1.ListResourcesRequest;
import dev.mcpbridge.v1.ListToolsRequest;
import dev.mcpbridge.v1.ListenRequest;
import dev.mcpbridge.v1.ListenResponse;
import dev.mcpbridge.v1.McpServiceGrpc;
import dev.mcpbridge.v1.ReadResourceRequest;
import dev.mcpbridge.v1.SubscriptionFilter;
import dev.mcpbridge.v1.VerifiedCaller;
import io.grpc.Context.CancellableContext;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.protobuf.StatusProto;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslProvider;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;

/**
 * A real process, spoken to as the bridge does: handshake, TLS, streams, shutdown, and what happens when things end.
 */
class ServeTest {
  @TempDir Path folder;

  private Plugin start() throws Exception {
    return new Plugin(folder, Plugin.COOKIE);
  }

  @Test
  void theLifecycleOfAProcess() throws Exception {
    try (Plugin plugin = start()) {
      assertEquals(List.of("printed before the app"), plugin.before);
      assertEquals(
          List.of("1", "1", "unix", "grpc", ""),
          List.of(plugin.fields[0], plugin.fields[1], plugin.fields[2], plugin.fields[4], plugin.fields[5]));
      var channel = plugin.channel();
      assertEquals("{\"sum\":3}", Plugin.text(channel, "add", Map.of("a", 1, "b", 2)));

      // Output is logged at once. The bridge handles the output of child processes.
      assertEquals("ok", Plugin.text(channel, "loud", Map.of()));
      assertTrue(plugin.log().contains("printed after the app") && plugin.log().contains("printed\n"), plugin.log());
      assertFalse(plugin.log().contains("WARN"), plugin.log());
      assertEquals("echoed by a child", plugin.stdout.readLine());
      assertEquals(
          "a tool cannot read standard input, which belongs to the bridge; ask the user:"
              + " ctx.elicit(message, String.class)",
          Plugin.text(channel, "readStdin", Map.of()));

      // Health.
      for (String service : List.of("", "plugin")) {
        var answer =
            HealthGrpc.newBlockingStub(channel).check(HealthCheckRequest.newBuilder().setService(service).build());
        assertEquals(ServingStatus.SERVING, answer.getStatus());
      }

      // Events come in order, and the result last.
      List<CallToolResponse> events = new ArrayList<>();
      Plugin.call(channel, "steps", Map.of("n", 5000)).forEachRemaining(events::add);
      assertEquals(10_001, events.size());
      assertEquals(4999, events.get(9998).getProgress().getProgress());
      assertEquals("4999", events.get(9999).getLog().getData());
      assertTrue(events.get(10_000).hasResult());

      // Large messages.
      String large = "x".repeat(20 << 20);
      assertEquals(large.length(), Plugin.text(channel, "echo", Map.of("text", large)).length());

      // Errors.
      var stub = McpServiceGrpc.newBlockingStub(channel);
      var exact = assertThrows(StatusRuntimeException.class, () -> Plugin.text(channel, "exact", Map.of()));
      var error = StatusProto.fromThrowable(exact).getDetails(0).unpack(JsonRpcError.class);
      assertEquals(
          "-31042 exactly this {\"n\":9007199254740993}",
          error.getCode() + " " + error.getMessage() + " " + error.getData());
      assertEquals(Status.Code.NOT_FOUND, code(() -> Plugin.text(channel, "nothing", Map.of())));
      assertEquals(
          Status.Code.NOT_FOUND,
          code(
              () ->
                  stub.readResource(
                          ReadResourceRequest.newBuilder()
                              .setContext(Caller.EVERYTHING)
                              .setUri("test://items/100")
                              .build())
                      .next()));
      assertEquals(
          Status.Code.INVALID_ARGUMENT,
          code(
              () ->
                  stub.listTools(ListToolsRequest.newBuilder().setContext(Caller.EVERYTHING).setCursor("x").build())));
      assertEquals(
          1,
          stub.listResources(ListResourcesRequest.newBuilder().setContext(Caller.EVERYTHING).build())
              .getResourcesCount());

      // A bridge with another version of the contract.
      for (int version : List.of(0, 3)) {
        var other =
            CallContext.newBuilder().setVerified(VerifiedCaller.newBuilder().setContractVersion(version)).build();
        List<Executable> calls =
            List.of(
                () -> stub.discover(DiscoverRequest.newBuilder().setContext(other).build()),
                () -> stub.callTool(CallToolRequest.newBuilder().setContext(other).setName("add").build()).next(),
                () -> stub.listen(ListenRequest.newBuilder().setContext(other).build()).next());
        for (Executable call : calls) {
          assertEquals(
              "FAILED_PRECONDITION: the bridge has version "
                  + Math.max(version, 1)
                  + " of the contract, and this SDK has version 2: "
                  + "install an mcpbridge and an SDK of the same release",
              assertThrows(StatusRuntimeException.class, call).getMessage());
        }
      }

      // Changes.
      var filter = SubscriptionFilter.newBuilder().setToolsListChanged(true).addResourceSubscriptions("test://a");
      Iterator<ListenResponse> changes =
          stub.listen(ListenRequest.newBuilder().setContext(Caller.EVERYTHING).setNotifications(filter).build());
      assertTrue(changes.next().hasAcknowledged());
      Plugin.call(channel, "grow", Map.of("name", "extra")).forEachRemaining(e -> {});
      assertTrue(changes.next().hasToolsListChanged());
      assertEquals("extra", Plugin.text(channel, "extra", Map.of()));
      Plugin.call(channel, "touch", Map.of("uri", "test://b")).forEachRemaining(e -> {});
      Plugin.call(channel, "touch", Map.of("uri", "test://a")).forEachRemaining(e -> {});
      assertEquals("test://a", changes.next().getResourceUpdated().getUri());

      // A cancellation interrupts the handler.
      Path file = folder.resolve("cancelled");
      CancellableContext context = io.grpc.Context.current().withCancellation();
      var call = context.call(() -> Plugin.call(channel, "slow", Map.of("seconds", 60, "file", file.toString())));
      assertTrue(call.next().hasProgress());
      context.cancel(null);
      Plugin.until(() -> file.toFile().length() > 0);
      assertEquals("interrupted, cancelled true", Files.readString(file));
      assertEquals("{\"sum\":3}", Plugin.text(channel, "add", Map.of("a", 1, "b", 2)));

      // Shutdown lets calls complete, and abandons those that do not.
      var health = HealthGrpc.newBlockingStub(channel).watch(HealthCheckRequest.getDefaultInstance());
      assertEquals(ServingStatus.SERVING, health.next().getStatus());
      var slow = Plugin.call(channel, "slow", Map.of("seconds", 0.5, "file", file.toString()));
      assertTrue(slow.next().hasProgress());
      Plugin.shutdown(channel);
      assertEquals("slept", slow.next().getResult().getContent(0).getText().getText());
      assertTrue(changes.next().hasResult());
      assertFalse(changes.hasNext());
      assertEquals(ServingStatus.NOT_SERVING, health.next().getStatus());
      assertFalse(health.hasNext());
      assertEquals(0, plugin.exitCode(5));
      assertFalse(Files.exists(Path.of(plugin.fields[3])));
      assertEquals(null, plugin.stdout.readLine());
    }
  }

  private static Status.Code code(org.junit.jupiter.api.function.Executable call) {
    return assertThrows(StatusRuntimeException.class, call).getStatus().getCode();
  }

  @Test
  void callsThatDoNotEndAreAbandoned() throws Exception {
    try (Plugin plugin = start()) {
      var channel = plugin.channel();
      assertTrue(Plugin.call(channel, "stuck", Map.of()).next().hasProgress());
      long start = System.nanoTime();
      Plugin.shutdown(channel);
      assertEquals(0, plugin.exitCode(30));
      long took = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
      assertTrue(took >= Serve.DRAIN - 100, "it took " + took + " ms");
    }
  }

  @Test
  void aSignalIsAShutdown() throws Exception {
    try (Plugin plugin = start()) {
      var channel = plugin.channel();
      var slow = Plugin.call(channel, "slow", Map.of("seconds", 0.3, "file", folder.resolve("f").toString()));
      assertTrue(slow.next().hasProgress());
      signal(plugin, "INT"); // The terminal's, which is for the bridge.
      signal(plugin, "TERM");
      assertEquals("slept", slow.next().getResult().getContent(0).getText().getText());
      assertEquals(0, plugin.exitCode(30));
    }
  }

  @Test
  void aFailureNamesItsLine() throws Exception {
    try (Plugin plugin = start()) {
      var channel = plugin.channel();
      assertEquals("boom", Plugin.text(channel, "fails", Map.of()));
      assertEquals("For input string: \"many\"", Plugin.text(channel, "unready", Map.of()));
      assertTrue(Plugin.text(channel, "unready", Map.of()).contains("For input string: \"many\""));
      assertEquals(
          "the tool returned null, which its return type does not allow",
          Plugin.text(channel, "cannotBeWritten", Map.of()));
      assertEquals(
          "the tool returned a value that JSON cannot represent: a is NaN",
          Plugin.text(channel, "notANumber", Map.of()));
      Plugin.call(channel, "logs", Map.of()).forEachRemaining(e -> {});

      // A failure is one line, which the bridge parses.
      List<JsonNode> all =
          plugin.log().lines().filter(line -> line.startsWith("{")).map(Json.MAPPER::readTree).toList();
      String loud = "Tools.java:" + Tools.line("\"printed\"") + ": tool \"loud\" has no description, ";
      assertTrue(all.stream().anyMatch(record -> record.get("message").asString().startsWith(loud)), all::toString);
      List<JsonNode> log =
          all.stream().filter(record -> !record.get("message").asString().contains("has no description")).toList();
      List<String> lines =
          log.stream().map(record -> record.get("level").asString() + " " + record.get("message").asString()).toList();
      String unready = " failed at Tools.java:" + Tools.line("Integer.parseInt(\"many\")") + ": ";
      assertEquals(
          "error tool \"fails\" failed at Tools.java:"
              + Tools.line("\"boom\"")
              + ": java.lang.IllegalStateException: boom",
          lines.get(0));
      assertEquals(
          "error tool \"unready\"" + unready + "java.lang.NumberFormatException: For input string: \"many\"",
          lines.get(1));
      assertTrue(lines.get(2).startsWith("error tool \"unready\"" + unready), lines.get(2));
      assertTrue(
          lines
              .get(3)
              .startsWith("error tool \"cannotBeWritten\" failed at Tools.java:" + Tools.line("return null;") + ": "),
          lines.get(3));
      assertTrue(
          lines.get(4).startsWith("error tool \"notANumber\" failed at Tools.java:" + Tools.line("Double.NaN") + ": "),
          lines.get(4));
      assertEquals("warn mind\nthe gap", lines.get(5));
      assertEquals(6, lines.size());
      for (JsonNode record : log.subList(0, 5)) {
        assertFalse(record.get("trace").asString().contains("dev.mcpbridge.App"), record::toString);
        assertFalse(record.get("trace").asString().contains("tools.jackson"), record::toString);
      }
    }
  }

  @Test
  void anExitIsAnsweredAndNamed() throws Exception {
    for (boolean elsewhere : List.of(false, true)) {
      try (Plugin plugin = start()) {
        var channel = plugin.channel();
        var slow = Plugin.call(channel, "slow", Map.of("seconds", 1, "file", folder.resolve("f").toString()));
        assertTrue(slow.next().hasProgress());
        if (elsewhere) {
          var call = Plugin.call(channel, "exits", Map.of("elsewhere", true));
          assertEquals("slept", slow.next().getResult().getContent(0).getText().getText());
          assertThrows(StatusRuntimeException.class, call::next);
        } else {
          var call = Plugin.call(channel, "exits", Map.of("elsewhere", false)).next().getResult();
          assertTrue(call.getIsError());
          assertEquals("System.exit was called, which ended the backend", call.getContent(0).getText().getText());
          // The other calls complete.
          assertEquals("slept", slow.next().getResult().getContent(0).getText().getText());
        }
        assertEquals(elsewhere ? 4 : 3, plugin.exitCode(30));
        String at = "Tools.java:" + Tools.line(elsewhere ? "// Elsewhere." : "// Here.");
        assertTrue(
            plugin
                .log()
                .contains("\"level\":\"error\",\"logger\":\"mcpbridge\",\"message\":\"System.exit was called at " + at),
            plugin.log());
      }
    }
  }

  private static void signal(Plugin plugin, String signal) throws Exception {
    assertEquals(0, new ProcessBuilder("kill", "-" + signal, String.valueOf(plugin.process.pid())).start().waitFor());
  }

  @Test
  void theProcessExitsWithTheBridge() throws Exception {
    try (Plugin plugin = start()) {
      assertTrue(Plugin.call(plugin.channel(), "stuck", Map.of()).next().hasProgress());
      plugin.process.getOutputStream().close();
      assertEquals(0, plugin.exitCode(30));
      assertFalse(Files.exists(Path.of(plugin.fields[3])));
    }
  }

  @Test
  void aPersonGetsTheUsage() throws Exception {
    try (Plugin plugin = new Plugin(folder, Map.of("MCPBRIDGE_PLUGIN", ""))) {
      assertEquals(2, plugin.exitCode(20));
      assertTrue(plugin.log().contains("mcpbridge run -- java -cp ... dev.mcpbridge.Tools\n"), plugin.log());
    }
    try (Plugin plugin =
        new Plugin(folder, Map.of("MCPBRIDGE_PLUGIN", "mcpbridge.v1", "PLUGIN_PROTOCOL_VERSIONS", "2,3"))) {
      assertEquals(1, plugin.exitCode(20));
      assertTrue(
          plugin
              .log()
              .contains("the bridge supports version 2,3 of the plugin protocol, and this SDK supports version 1"),
          plugin.log());
    }
  }

  @Test
  void itListensAtTcpIfOnlyThatIsAllowed() throws Exception {
    Map<String, String> env = new HashMap<>(Plugin.COOKIE);
    env.put("PLUGIN_TRANSPORTS", "tcp");
    try (Plugin plugin = new Plugin(folder, env)) {
      assertEquals("tcp", plugin.fields[2], plugin.log());
      assertTrue(plugin.fields[3].startsWith("127.0.0.1:"), plugin.line);
      assertEquals("{\"sum\":3}", Plugin.text(plugin.channel(), "add", Map.of("a", 1, "b", 2)));
    }
  }

  @Test
  void itListens() throws Exception {
    String socket = "unix:" + folder.resolve("s");
    for (String address : List.of("127.0.0.1:0", socket)) {
      Map<String, String> alone = Map.of("MCPBRIDGE_PLUGIN", "");
      ProcessBuilder builder =
          new ProcessBuilder(Plugin.java(Tools.class, "--listen", address)).redirectErrorStream(true);
      builder.environment().putAll(alone);
      Process process = builder.start();
      try {
        var out = process.inputReader();
        String line = out.readLine();
        while (!line.contains("listening")) {
          line = out.readLine();
        }
        String at = line.substring(line.lastIndexOf(' ') + 1);
        assertTrue(at.startsWith(address.equals(socket) ? "unix:///" : "tcp:127.0.0.1:"), line);
        var channel = Plugin.dial(null, at.replaceFirst("^unix://", "unix:").replaceFirst("^tcp:", ""));
        assertEquals("{\"sum\":3}", Plugin.text(channel, "add", Map.of("a", 1, "b", 2)));
        channel.shutdownNow();
        process.destroy();
        assertTrue(process.waitFor(10, TimeUnit.SECONDS));
        assertEquals(0, process.exitValue());
      } finally {
        process.destroyForcibly();
      }
    }
  }

  // TLS.

  private record Identity(PrivateKey key, X509Certificate certificate) {
    String certificatePem() throws Exception {
      return pem("CERTIFICATE", certificate.getEncoded());
    }

    private static String pem(String what, byte[] der) {
      return "-----BEGIN "
          + what
          + "-----\n"
          + Base64.getMimeEncoder(64, new byte[] {'\n'}).encodeToString(der)
          + "\n-----END "
          + what
          + "-----\n";
    }

    String both() throws Exception {
      return pem("PRIVATE KEY", key.getEncoded()) + certificatePem();
    }
  }

  /** The JDK can create certificates only with keytool. */
  private List<Identity> identities(String... names) throws Exception {
    Path keytool = Path.of(System.getProperty("java.home"), "bin", "keytool");
    List<Process> processes = new ArrayList<>();
    for (String name : names) {
      List<String> command =
          new ArrayList<>(
              List.of(
                  keytool.toString(),
                  "-genkeypair",
                  "-keyalg",
                  "EC",
                  "-groupname",
                  "secp256r1",
                  "-storetype",
                  "PKCS12"));
      command.addAll(
          List.of(
              "-dname",
              "CN=localhost",
              "-ext",
              "san=dns:localhost",
              "-ext",
              "bc:c=ca:true",
              "-ext",
              "eku=serverAuth,clientAuth"));
      command.addAll(List.of("-alias", "a", "-storepass", "changeit", "-keystore", folder.resolve(name).toString()));
      processes.add(
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(folder.resolve(name + ".log").toFile())
              .start());
    }
    List<Identity> identities = new ArrayList<>();
    for (int i = 0; i < names.length; i++) {
      assertEquals(0, processes.get(i).waitFor());
      KeyStore store = KeyStore.getInstance("PKCS12");
      try (InputStream in = Files.newInputStream(folder.resolve(names[i]))) {
        store.load(in, "changeit".toCharArray());
      }
      identities.add(
          new Identity(
              (PrivateKey) store.getKey("a", "changeit".toCharArray()), (X509Certificate) store.getCertificate("a")));
    }
    return identities;
  }

  @Test
  void onlyTheBridgeIsAccepted() throws Exception {
    List<Identity> made = identities("plugin", "bridge", "other");
    Path pair = folder.resolve("pair.pem");
    Files.writeString(pair, made.get(0).both());
    Map<String, String> env = new HashMap<>(Plugin.COOKIE);
    env.put("MCPBRIDGE_KEY_PAIR", pair.toString());
    env.put("PLUGIN_CLIENT_CERT", made.get(1).certificatePem());
    env.put("PLUGIN_MULTIPLEX_GRPC", "true");
    // A path that is too long for a socket: TCP.
    Path deep = Files.createDirectories(folder.resolve("d".repeat(60)).resolve("d".repeat(40)));
    for (Path dir : List.of(folder, deep)) {
      env.put("PLUGIN_UNIX_SOCKET_DIR", dir.toString());
      env.put("PLUGIN_TRANSPORTS", "unix,tcp");
      try (Plugin plugin = new Plugin(folder, env)) {
        assertEquals(dir == deep ? "tcp" : "unix", plugin.fields[2], plugin.log());
        assertEquals("false", plugin.fields[6]);
        assertFalse(plugin.fields[5].contains("="));
        var server =
            (X509Certificate)
                CertificateFactory.getInstance("X.509")
                    .generateCertificate(new ByteArrayInputStream(Base64.getDecoder().decode(plugin.fields[5])));
        assertEquals(made.get(0).certificate(), server);
        String address = dir == deep ? plugin.fields[3] : "unix:" + plugin.fields[3];
        assertEquals(
            "{\"sum\":3}",
            Plugin.text(plugin.channel(tls(server, made.get(1)), address), "add", Map.of("a", 1, "b", 2)));
        assertEquals(
            Status.Code.UNAVAILABLE,
            code(() -> Plugin.text(plugin.channel(tls(server, made.get(2)), address), "add", Map.of())));
        assertEquals(
            Status.Code.UNAVAILABLE,
            code(() -> Plugin.text(plugin.channel(tls(server, null), address), "add", Map.of())));
        assertEquals(Status.Code.UNAVAILABLE, code(() -> Plugin.text(plugin.channel(null, address), "add", Map.of())));
      }
    }
  }

  private static SslContext tls(X509Certificate server, Identity client) throws Exception {
    var builder = GrpcSslContexts.configure(GrpcSslContexts.forClient(), SslProvider.JDK).trustManager(server);
    if (client != null) {
      builder.keyManager(client.key(), client.certificate());
    }
    return builder.build();
  }
}
