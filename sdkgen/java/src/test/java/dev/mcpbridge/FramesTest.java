package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.CallToolResponse;
import dev.mcpbridge.v1.ElicitResult;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.JsonRpcError;
import io.grpc.Status;
import java.io.EOFException;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Calls as frames: a real service, and the bridge's end of a real socket. */
@Timeout(60)
class FramesTest {
  private static final int SERVING = 60;

  @TempDir Path folder;

  record Text(String text) {}

  private final App app = Bridge.app("frames", "1");
  private Service service;
  private Thread serving;
  private Peer peer;

  /** The bridge's end. */
  private static final class Peer implements AutoCloseable {
    private final ServerSocketChannel server = ServerSocketChannel.open(StandardProtocolFamily.UNIX);
    private final ByteBuffer in = ByteBuffer.allocate(1 << 16).flip();
    final String address;
    SocketChannel channel;

    record Frame(int kind, int id, ByteString payload) {
      CallToolResponse response() throws IOException {
        return CallToolResponse.parseFrom(payload);
      }

      String text() throws IOException {
        assertEquals(Frames.RESULT, kind, () -> "frame of kind " + kind);
        return response().getResult().getContent(0).getText().getText();
      }

      com.google.rpc.Status error() throws IOException {
        assertEquals(Frames.ERROR, kind, () -> "frame of kind " + kind);
        return com.google.rpc.Status.parseFrom(payload);
      }

      Status.Code code() throws IOException {
        return Status.fromCodeValue(error().getCode()).getCode();
      }
    }

    Peer(Path folder) throws IOException {
      Path socket = folder.resolve("frames.sock");
      server.bind(UnixDomainSocketAddress.of(socket));
      address = "unix:" + socket;
    }

    /** Accepts the connection, and reads its HELLO. */
    void accept() throws IOException {
      channel = server.accept();
      Frame hello = next();
      assertEquals(
          List.of(Frames.HELLO, 0, 1, Frames.VERSION),
          List.of(hello.kind, hello.id, hello.payload.size(), (int) hello.payload.byteAt(0)));
    }

    void send(int kind, int id, byte... payload) throws IOException {
      write(header(kind, id, payload.length, payload.length).put(payload).flip());
    }

    static ByteBuffer header(int kind, int id, int length, int capacity) {
      return ByteBuffer.allocate(Frames.HEADER + capacity).putInt(length).putInt(id).put((byte) kind);
    }

    void write(ByteBuffer bytes) throws IOException {
      while (bytes.hasRemaining()) {
        channel.write(bytes);
      }
    }

    static byte[] request(String name, Object arguments) {
      return request(name, arguments, Map.of(), null);
    }

    static byte[] request(String name, Object arguments, Map<String, InputResponse> answers, CallToolResponse asked) {
      var request =
          CallToolRequest.newBuilder()
              .setContext(Caller.EVERYTHING)
              .setName(name)
              .setArguments(ByteString.copyFromUtf8(InProcess.json(arguments)));
      if (asked != null) {
        request.setRequestState(asked.getInputRequired().getRequestState());
      }
      return request.putAllInputResponses(answers).build().toByteArray();
    }

    void call(int id, String name, Object arguments) throws IOException {
      send(Frames.CALL, id, request(name, arguments));
    }

    Frame next() throws IOException {
      ByteBuffer header = read(Frames.HEADER);
      int length = header.getInt();
      int id = header.getInt();
      return new Frame(header.get(), id, ByteString.copyFrom(read(length)));
    }

    private ByteBuffer read(int length) throws IOException {
      ByteBuffer bytes = ByteBuffer.allocate(length);
      while (bytes.hasRemaining()) {
        if (!in.hasRemaining()) {
          in.clear();
          int got = channel.read(in);
          in.flip();
          if (got < 0) {
            throw new EOFException();
          }
        }
        int count = Math.min(in.remaining(), bytes.remaining());
        bytes.put(in.slice(in.position(), count));
        in.position(in.position() + count);
      }
      return bytes.flip();
    }

    boolean isClosed() throws IOException {
      try {
        next();
        return false;
      } catch (EOFException e) {
        return true;
      }
    }

    @Override
    public void close() throws IOException {
      server.close();
      if (channel != null) {
        channel.close();
      }
    }
  }

  @BeforeEach
  void start() throws Exception {
    peer = new Peer(folder);
    service = new Service(app);
    service.start(UnixDomainSocketAddress.of(folder.resolve("grpc.sock")), null);
    serving =
        new Thread(
            () -> {
              try {
                service.await();
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            });
    serving.start();
    app.tool("echo").input(Text.class).handle((in, ctx) -> in.text());
  }

  private void connect() throws IOException {
    service.connect(peer.address);
    peer.accept();
  }

  @AfterEach
  void stop() throws Exception {
    service.stop(0);
    serving.join();
    peer.close();
  }

  @Test
  void concurrentCallsGetTheirOwnResponses() throws Exception {
    connect();
    int calls = 10_000;
    var results =
        CompletableFuture.supplyAsync(
            () -> {
              Map<Integer, String> texts = new HashMap<>();
              try {
                while (texts.size() < calls) {
                  var frame = peer.next();
                  assertNull(texts.put(frame.id, frame.text()), "a call ended twice");
                }
              } catch (IOException e) {
                throw new AssertionError(e);
              }
              return texts;
            });
    // Ids use all bits, and reads end at any byte of a frame.
    for (int i = 0; i < calls; i++) {
      peer.call(i * 429_467, "echo", Map.of("text", i + ":" + "x".repeat(i % 700)));
    }
    Map<Integer, String> texts = results.get(SERVING, TimeUnit.SECONDS);
    for (int i = 0; i < calls; i++) {
      assertEquals(i + ":" + "x".repeat(i % 700), texts.get(i * 429_467));
    }
  }

  @Test
  void aStartedTaskIsAnEvent() throws Exception {
    connect();
    app.tool("later")
        .task(Task.OPTIONAL)
        .startsLater(true)
        .handle(
            (json, ctx) -> {
              ctx.startTask();
              return "done";
            });
    peer.call(1, "later", Map.of());
    var event = peer.next();
    assertEquals(Frames.EVENT, event.kind);
    assertTrue(event.response().hasTaskStarted());
    assertEquals("done", peer.next().text());
  }

  @Test
  void longMessagesAreComplete() throws Exception {
    connect();
    String text = "ab".repeat(10 << 20);
    var writing =
        CompletableFuture.runAsync(
            () -> {
              try {
                peer.call(1, "echo", Map.of("text", text)); // While the bridge reads: neither waits for the other.
                peer.call(2, "echo", Map.of("text", text));
              } catch (IOException e) {
                throw new AssertionError(e);
              }
            });
    assertEquals(text, peer.next().text());
    assertEquals(text, peer.next().text());
    writing.get(SERVING, TimeUnit.SECONDS);
  }

  @Test
  void aCancelledCallEndsAsOverGrpc() throws Exception {
    connect();
    var interrupted = new LinkedBlockingQueue<Boolean>();
    var canceled = new LinkedBlockingQueue<String>();
    app.tool("wait")
        .handle(
            (json, ctx) -> {
              ctx.onCancelled(() -> canceled.add("canceled"));
              ctx.progress(1);
              try {
                new CountDownLatch(1).await();
              } catch (InterruptedException e) {
                interrupted.add(ctx.isCancelled());
                throw e;
              }
              return "";
            });
    peer.call(7, "wait", Map.of());
    assertEquals(Frames.EVENT, peer.next().kind);
    peer.send(Frames.CANCEL, 8); // No such call.
    peer.send(Frames.CANCEL, 7);
    var end = peer.next();
    assertEquals(7, end.id);
    assertEquals(Status.Code.CANCELLED, end.code());
    assertEquals(true, interrupted.take());
    assertEquals("canceled", canceled.take());
    // The thread and the id can be reused.
    peer.send(Frames.CANCEL, 7);
    peer.call(7, "echo", Map.of("text", "again"));
    assertEquals("again", peer.next().text());
  }

  @Test
  void aCallThatIsCanceledBeforeItStartsEnds() throws Exception {
    app.threads(1);
    service.stop(0);
    serving.join();
    service = new Service(app);
    service.start(UnixDomainSocketAddress.of(folder.resolve("one.sock")), null);
    serving = new Thread(() -> {});
    serving.start();
    connect();
    var go = new Semaphore(0);
    var ran = new AtomicInteger();
    app.tool("hold").handle((json, ctx) -> { go.acquire(); return "held"; });
    app.tool("runs").handle((json, ctx) -> { ran.incrementAndGet(); Thread.sleep(60_000); return ""; });
    peer.call(1, "hold", Map.of());
    peer.call(2, "runs", Map.of());
    peer.send(Frames.CANCEL, 2);
    peer.call(3, "echo", Map.of("text", "x"));
    peer.send(Frames.CALL, 4, (byte) 10); // Frames are read in order: the error means that CANCEL has been read.
    assertEquals(Status.Code.INTERNAL, peer.next().code());
    go.release();
    assertEquals("held", peer.next().text());
    assertEquals(Status.Code.CANCELLED, peer.next().code());
    assertEquals("x", peer.next().text());
    assertEquals(0, ran.get()); // It did not start, so it needs no interrupt.
  }

  @Test
  void eventsAreInOrderAndWaitForTheCaller() throws Exception {
    connect();
    var sent = new AtomicInteger();
    int steps = 1000;
    app.tool("steps")
        .handle(
            (json, ctx) -> {
              for (int i = 0; i < steps; i++) {
                ctx.progress(i);
                sent.set(i + 1);
              }
              ctx.log().info("done");
              return "done";
            });
    peer.call(1, "steps", Map.of());
    int next = 0;
    for (; next < Frames.MAX_UNREAD; next++) {
      assertEquals(next, peer.next().response().getProgress().getProgress());
    }
    // No more events until the caller has read some; other calls proceed.
    peer.call(2, "echo", Map.of("text", "other"));
    var other = peer.next();
    assertEquals("2 other", other.id + " " + other.text());
    assertEquals(Frames.MAX_UNREAD, sent.get());
    for (int i = 0; i < Frames.MAX_UNREAD; i++) {
      peer.send(Frames.TAKEN, 1);
    }
    for (; next < steps; next++) {
      var frame = peer.next();
      assertEquals(Frames.EVENT, frame.kind);
      assertEquals(next, frame.response().getProgress().getProgress());
      peer.send(Frames.TAKEN, 1);
    }
    assertTrue(peer.next().response().hasLog());
    assertEquals("done", peer.next().text());
  }

  @Test
  void errorsAreThoseOfGrpc() throws Exception {
    connect();
    app.tool("exact")
        .handle(
            (json, ctx) -> {
              throw new McpException(-32042, "exactly this", Map.of("n", 9007199254740993L));
            });
    app.tool("fails")
        .handle(
            (json, ctx) -> {
              throw new IllegalStateException("boom");
            });
    peer.call(1, "exact", Map.of());
    var exact = peer.next().error();
    assertEquals(Status.Code.UNKNOWN.value() + " exactly this", exact.getCode() + " " + exact.getMessage());
    var error = exact.getDetails(0).unpack(JsonRpcError.class);
    assertEquals(
        "-32042 exactly this {\"n\":9007199254740993}",
        error.getCode() + " " + error.getMessage() + " " + error.getData());
    peer.call(2, "ecko", Map.of());
    var missing = peer.next();
    assertEquals(Status.Code.NOT_FOUND, missing.code());
    assertEquals("there is no tool \"ecko\"; did you mean \"echo\"?", missing.error().getMessage());
    peer.call(3, "fails", Map.of());
    var failed = peer.next();
    assertEquals("boom", failed.text());
    assertTrue(failed.response().getResult().getIsError());
    peer.send(Frames.CALL, 4, (byte) 0xff);
    assertEquals(Status.Code.INTERNAL, peer.next().code());
    peer.send(Frames.CALL, 4); // An empty request is one of a bridge with version 1 of the contract.
    assertEquals(Status.Code.FAILED_PRECONDITION, peer.next().code());
  }

  @Test
  void aResponseThatIsTooLongFailsOnlyItsCall() throws Exception {
    connect();
    app.tool("huge").handle((json, ctx) -> "x".repeat(Service.MAX_MESSAGE));
    app.tool("loud").handle((json, ctx) -> { ctx.progress(1, null, "x".repeat(Service.MAX_MESSAGE)); return ""; });
    peer.call(1, "huge", Map.of());
    assertEquals(Status.Code.RESOURCE_EXHAUSTED, peer.next().code());
    peer.call(1, "loud", Map.of());
    var loud = peer.next();
    assertTrue(
        loud.response().getResult().getIsError() && loud.text().contains(" exceeds the maximum of 67108864 bytes"),
        loud::toString);
    peer.call(1, "echo", Map.of("text", "on"));
    assertEquals("on", peer.next().text());
  }

  @Test
  void aCallAsksSeveralQuestionsAtOnce() throws Exception {
    connect();
    app.tool("ask")
        .handle(
            (json, ctx) -> {
              var all = ctx.askAll();
              var name = all.elicit("Name?", String.class);
              var age = all.elicit("Age?", Integer.class);
              return name.data() + " is " + age.data();
            });
    peer.call(1, "ask", Map.of());
    var asked = peer.next();
    assertEquals(Frames.RESULT, asked.kind);
    assertEquals(2, asked.response().getInputRequired().getInputRequestsCount());
    Map<String, InputResponse> answers = new HashMap<>();
    asked.response().getInputRequired().getInputRequestsList()
        .forEach(
            request -> {
              Object value = request.getElicit().getForm().getMessage().equals("Name?") ? "Ada" : 36;
              var content = InProcess.json(Map.of("value", value));
              var accepted = ElicitResult.newBuilder().setAction("accept").setContent(content);
              answers.put(request.getKey(), InputResponse.newBuilder().setElicit(accepted).build());
            });
    peer.send(Frames.CALL, 1, Peer.request("ask", Map.of(), answers, asked.response()));
    assertEquals("Ada is 36", peer.next().text());
  }

  @Test
  void protocolViolationsCloseTheConnection() throws Exception {
    var cancelled = new LinkedBlockingQueue<String>();
    var started = new Semaphore(0);
    app.tool("wait")
        .handle(
            (json, ctx) -> {
              ctx.onCancelled(() -> cancelled.add("cancelled"));
              started.release();
              new CountDownLatch(1).await();
              return "";
            });
    for (var violation :
        List.of(
            Peer.header(Frames.CALL, 9, Service.MAX_MESSAGE + 1, 0).flip(),
            Peer.header(99, 9, -1, 0).flip(), // Also of a kind that is ignored.
            Peer.header(Frames.CALL, 1, 0, 0).flip())) { // It is in flight.
      connect();
      peer.call(1, "wait", Map.of());
      started.acquire();
      peer.write(violation);
      assertTrue(peer.isClosed());
      // The calls of a connection end with it.
      assertEquals("cancelled", cancelled.poll(SERVING, TimeUnit.SECONDS));
    }
    // gRPC still works.
    var channel = Plugin.dial(null, "unix:" + folder.resolve("grpc.sock"));
    assertEquals("on", Plugin.text(channel, "echo", Map.of("text", "on")));
    channel.shutdownNow();
  }

  @Test
  void theEndOfTheConnectionCancelsItsCalls() throws Exception {
    connect();
    var ended = new LinkedBlockingQueue<Boolean>();
    app.tool("wait")
        .handle(
            (json, ctx) -> {
              ctx.progress(1);
              try {
                new CountDownLatch(1).await();
              } finally {
                ended.add(ctx.isCancelled());
              }
              return "";
            });
    peer.call(1, "wait", Map.of());
    peer.call(2, "wait", Map.of());
    peer.next();
    peer.next();
    peer.send(Frames.CALL, 3, new byte[0]);
    peer.write(Peer.header(Frames.CALL, 4, 100, 0).flip()); // Without its payload.
    peer.channel.close();
    assertEquals(true, ended.poll(SERVING, TimeUnit.SECONDS));
    assertEquals(true, ended.poll(SERVING, TimeUnit.SECONDS));
  }

  @Test
  void withoutASocketCallsUseGrpc() throws Exception {
    for (String address :
        new String[] {null, "", "C:\\frames", "unix:", "unix:" + folder.resolve("missing"), "unix:\0"}) {
      assertNull(Frames.connect(service, address), address);
    }
  }

  @Test
  void aProcessConnectsWhenItServes() throws Exception {
    Map<String, String> env = new HashMap<>(Plugin.COOKIE);
    env.put(Frames.VARIABLE, peer.address);
    try (Plugin plugin = new Plugin(folder, env)) {
      peer.accept();
      peer.call(1, "add", Map.of("a", 1, "b", 2));
      assertEquals("{\"sum\":3}", peer.next().response().getResult().getStructuredContent().toStringUtf8());
      assertEquals("{\"sum\":3}", Plugin.text(plugin.channel(), "add", Map.of("a", 1, "b", 2)));
      // Calls of both transports have time to complete.
      var file = folder.resolve("f").toString();
      peer.call(2, "slow", Map.of("seconds", 0.5, "file", file));
      assertEquals(Frames.EVENT, peer.next().kind);
      Plugin.shutdown(plugin.channel());
      assertEquals(new Peer.Frame(Frames.LAST, 2, ByteString.EMPTY), peer.next());
      assertEquals("slept", peer.next().text());
      peer.channel.shutdownOutput();
      assertTrue(peer.isClosed());
      assertEquals(0, plugin.exitCode(30));
    }
  }

  @Test
  void aCallThatExitsGetsAResponse() throws Exception {
    Map<String, String> env = new HashMap<>(Plugin.COOKIE);
    env.put(Frames.VARIABLE, peer.address);
    try (Plugin plugin = new Plugin(folder, env)) {
      peer.accept();
      peer.call(1, "exits", Map.of("elsewhere", false));
      assertEquals("System.exit was called, which ended the backend", peer.next().text());
      assertEquals(new Peer.Frame(Frames.LAST, 1, ByteString.EMPTY), peer.next());
      peer.channel.shutdownOutput();
      assertTrue(peer.isClosed());
      assertEquals(3, plugin.exitCode(30));
    }
  }
}
