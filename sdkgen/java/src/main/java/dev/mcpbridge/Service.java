package dev.mcpbridge;

import com.google.protobuf.Any;
import com.google.protobuf.ByteString;
import com.google.protobuf.Empty;
import com.google.protobuf.Message;
import com.google.protobuf.MessageLite;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.CallToolResponse;
import dev.mcpbridge.v1.CallToolResult;
import dev.mcpbridge.v1.CompleteRequest;
import dev.mcpbridge.v1.CompleteResponse;
import dev.mcpbridge.v1.DiscoverRequest;
import dev.mcpbridge.v1.DiscoverResponse;
import dev.mcpbridge.v1.GetPromptRequest;
import dev.mcpbridge.v1.GetPromptResponse;
import dev.mcpbridge.v1.GetPromptResult;
import dev.mcpbridge.v1.InputRequired;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.JsonRpcError;
import dev.mcpbridge.v1.ListPromptsRequest;
import dev.mcpbridge.v1.ListPromptsResponse;
import dev.mcpbridge.v1.ListResourceTemplatesRequest;
import dev.mcpbridge.v1.ListResourceTemplatesResponse;
import dev.mcpbridge.v1.ListResourcesRequest;
import dev.mcpbridge.v1.ListResourcesResponse;
import dev.mcpbridge.v1.ListToolsRequest;
import dev.mcpbridge.v1.ListToolsResponse;
import dev.mcpbridge.v1.ListenRequest;
import dev.mcpbridge.v1.ListenResponse;
import dev.mcpbridge.v1.LogMessage;
import dev.mcpbridge.v1.McpServiceGrpc;
import dev.mcpbridge.v1.Progress;
import dev.mcpbridge.v1.ReadResourceRequest;
import dev.mcpbridge.v1.ReadResourceResponse;
import dev.mcpbridge.v1.ReadResourceResult;
import dev.mcpbridge.v1.TaskStarted;
import io.grpc.MethodDescriptor;
import io.grpc.Server;
import io.grpc.ServerServiceDefinition;
import io.grpc.Status;
import io.grpc.health.v1.HealthCheckRequest;
import io.grpc.health.v1.HealthCheckResponse;
import io.grpc.health.v1.HealthCheckResponse.ServingStatus;
import io.grpc.health.v1.HealthGrpc;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.ServerCalls;
import io.grpc.stub.StreamObserver;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.ServerChannel;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioServerDomainSocketChannel;
import io.netty.channel.socket.nio.NioServerSocketChannel;
import io.netty.handler.ssl.ClientAuth;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.io.IOException;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.logging.Level;
import java.util.logging.Logger;

/** The gRPC server of an App: the contract, health checks, and the controller of go-plugin. */
final class Service extends McpServiceGrpc.McpServiceImplBase {
  static final int MAX_MESSAGE = 64 << 20;

  /** The version of the contract, mcpbridge.v1, that the SDK was built with. */
  static final int CONTRACT = 2;

  private static final int THREADS = 32;

  /** gRPC sets a TCP option on all sockets, and netty warns that unix sockets do not have it. */
  private static final Logger NETTY = Logger.getLogger("io.netty.bootstrap.ServerBootstrap");

  static {
    NETTY.setLevel(Level.SEVERE);
  }

  private final App app;
  private final ExecutorService handlers;
  private final Health health = new Health();
  private final AtomicInteger running = new AtomicInteger(); // Calls without a response.
  // Functions that fail the calls.
  private final Map<Thread, Consumer<String>> failFunctions = new ConcurrentHashMap<>();
  private final CountDownLatch stopping = new CountDownLatch(1);
  private final AtomicLong drain = new AtomicLong(Serve.DRAIN);
  private Server server;
  private volatile Frames frames; // Null if calls use gRPC only.
  private volatile boolean stopped;

  Service(App app) {
    this.app = app;
    this.handlers = handlers(app);
  }

  private static ExecutorService handlers(App app) {
    if (app.threads() == 0) {
      try {
        return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
      } catch (ReflectiveOperationException e) {
        // Java before 21.
      }
    }
    int threads = app.threads() == 0 ? THREADS : app.threads();
    AtomicInteger number = new AtomicInteger();
    ThreadFactory factory =
        task -> {
          Thread thread = new Thread(task, app.name() + "-" + number.incrementAndGet());
          thread.setDaemon(true);
          return thread;
        };
    var pool = new ThreadPoolExecutor(threads, threads, 60, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), factory);
    pool.allowCoreThreadTimeOut(true);
    return pool;
  }

  // Lifecycle.

  Server start(SocketAddress address, KeyPair pair) throws IOException {
    // One thread suffices for the input and output of a single connection.
    var loop =
        new MultiThreadIoEventLoopGroup(1, new DefaultThreadFactory("mcpbridge-grpc", true), NioIoHandler.newFactory());
    Class<? extends ServerChannel> channel =
        address instanceof UnixDomainSocketAddress ? NioServerDomainSocketChannel.class : NioServerSocketChannel.class;
    NettyServerBuilder builder =
        NettyServerBuilder.forAddress(address)
            .channelType(channel)
            .bossEventLoopGroup(loop)
            .workerEventLoopGroup(loop)
            .directExecutor() // Handlers run in other threads.
            .maxInboundMessageSize(MAX_MESSAGE)
            .permitKeepAliveTime(1, TimeUnit.SECONDS)
            .permitKeepAliveWithoutCalls(true)
            .addService(this)
            .addService(health)
            .addService(controller());
    if (pair != null) {
      var tls =
          SslContextBuilder.forServer(pair.key(), pair.certificate())
              .trustManager(pair.client())
              .clientAuth(ClientAuth.REQUIRE)
              // netty puts the key into an in-memory store. The default type encrypts it, which is slow.
              .keyStoreType("JKS");
      builder.sslContext(GrpcSslContexts.configure(tls, SslProvider.JDK).build());
    }
    server = builder.build().start();
    Runtime.getRuntime().addShutdownHook(new Thread(this::atExit, "mcpbridge-exit"));
    return server;
  }

  /** Also accepts tool calls on the frame socket of the bridge, if there is one. */
  void connect(String address) {
    frames = Frames.connect(this, address);
  }

  /**
   * Runs at exit. If a handler called System.exit, its call fails, the line is logged, and other calls have time to
   * complete.
   */
  private void atExit() {
    if (stopped) {
      return;
    }
    Map<Thread, StackTraceElement[]> traces = new HashMap<>(Thread.getAllStackTraces());
    // getAllStackTraces omits virtual threads.
    failFunctions.keySet().forEach(thread -> traces.put(thread, thread.getStackTrace()));
    int ended = 0;
    for (var trace : traces.entrySet()) {
      String at = SourceLine.ofExit(trace.getValue());
      if (at != null) {
        Consumer<String> call = failFunctions.remove(trace.getKey());
        BridgeLog.error(
            "System.exit was called at "
                + at
                + ", which ends the backend with all its calls; throw an exception instead");
        if (call != null) {
          call.accept("System.exit was called, which ended the backend");
          ended++;
        }
      }
    }
    try {
      drain(ended);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /** Makes await stop the server. */
  void stop() {
    stop(Serve.DRAIN);
  }

  /** Like stop. The shortest drain applies. */
  void stop(long milliseconds) {
    drain.accumulateAndGet(milliseconds, Math::min);
    stopping.countDown();
  }

  /** Serves until stop, then waits for calls in flight. */
  void await() throws InterruptedException {
    stopping.await();
    drain(0);
    handlers.shutdownNow();
    stopped = true;
  }

  /** Refuses new calls, and waits for calls in flight, except for a number that cannot complete. */
  private void drain(int uncompletable) throws InterruptedException {
    health.stop();
    app.changes.close();
    long start = System.nanoTime();
    Frames connection = frames;
    if (connection != null) {
      connection.drain(); // Before gRPC stops: after LAST, the bridge makes no new calls over gRPC either.
      while (!connection.awaitClose(5) && mayDrain(start)) {}
      connection.close();
    }
    // gRPC accepts calls until the peer has acknowledged the shutdown (GOAWAY, PING, GOAWAY). It closes the connection
    // when its calls have ended.
    server.shutdown();
    while ((running.get() > uncompletable || !server.isTerminated()) && mayDrain(start)) {
      Thread.sleep(5);
    }
    if (!server.isTerminated()) {
      server.shutdownNow();
      server.awaitTermination(500, TimeUnit.MILLISECONDS);
    }
  }

  private boolean mayDrain(long start) {
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start) < drain.get();
  }

  /** Health checks. Watch ends when the server stops: gRPC's implementation would block the shutdown. */
  private static final class Health extends HealthGrpc.HealthImplBase {
    private static final Set<String> SERVICES = Set.of("", "plugin");

    private final Set<StreamObserver<HealthCheckResponse>> watchers = new HashSet<>(); // Guarded by this.
    private ServingStatus status = ServingStatus.SERVING; // Guarded by this.

    private static HealthCheckResponse is(ServingStatus status) {
      return HealthCheckResponse.newBuilder().setStatus(status).build();
    }

    @Override
    public synchronized void check(HealthCheckRequest request, StreamObserver<HealthCheckResponse> out) {
      if (SERVICES.contains(request.getService())) {
        out.onNext(is(status));
        out.onCompleted();
      } else {
        out.onError(Status.NOT_FOUND.withDescription("unknown service " + request.getService()).asRuntimeException());
      }
    }

    @Override
    public synchronized void watch(HealthCheckRequest request, StreamObserver<HealthCheckResponse> out) {
      ((ServerCallStreamObserver<HealthCheckResponse>) out).setOnCancelHandler(() -> removeWatcher(out));
      out.onNext(is(SERVICES.contains(request.getService()) ? status : ServingStatus.SERVICE_UNKNOWN));
      if (status == ServingStatus.SERVING) {
        watchers.add(out);
      } else {
        out.onCompleted();
      }
    }

    private synchronized void removeWatcher(StreamObserver<HealthCheckResponse> out) {
      watchers.remove(out);
    }

    synchronized void stop() {
      status = ServingStatus.NOT_SERVING;
      for (var out : watchers) {
        out.onNext(is(status));
        out.onCompleted();
      }
      watchers.clear();
    }
  }

  /** The controller of go-plugin, with empty messages. */
  private ServerServiceDefinition controller() {
    var shutdown =
        MethodDescriptor.<Empty, Empty>newBuilder()
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName("plugin.GRPCController/Shutdown")
            .setRequestMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
            .setResponseMarshaller(ProtoUtils.marshaller(Empty.getDefaultInstance()))
            .build();
    return ServerServiceDefinition.builder("plugin.GRPCController")
        .addMethod(
            shutdown,
            ServerCalls.asyncUnaryCall(
                (request, out) -> {
                  out.onNext(Empty.getDefaultInstance());
                  out.onCompleted(); // Respond first.
                  stop();
                }))
        .build();
  }

  // Methods that respond immediately.

  @Override
  public void discover(DiscoverRequest request, StreamObserver<DiscoverResponse> out) {
    respond(request.getContext(), out, () -> app.discover());
  }

  @Override
  public void listTools(ListToolsRequest request, StreamObserver<ListToolsResponse> out) {
    respond(request.getContext(), out, () -> app.listTools(request.hasCursor()));
  }

  @Override
  public void listResources(ListResourcesRequest request, StreamObserver<ListResourcesResponse> out) {
    respond(request.getContext(), out, () -> app.listResources(request.hasCursor()));
  }

  @Override
  public void listResourceTemplates(
      ListResourceTemplatesRequest request, StreamObserver<ListResourceTemplatesResponse> out) {
    respond(request.getContext(), out, () -> app.listResourceTemplates(request.hasCursor()));
  }

  @Override
  public void listPrompts(ListPromptsRequest request, StreamObserver<ListPromptsResponse> out) {
    respond(request.getContext(), out, () -> app.listPrompts(request.hasCursor()));
  }

  @Override
  public void listen(ListenRequest request, StreamObserver<ListenResponse> out) {
    try {
      checkContract(request.getContext());
    } catch (CallStatus e) {
      out.onError(status(e));
      return;
    }
    app.changes.listen(request.getNotifications(), (ServerCallStreamObserver<ListenResponse>) out);
  }

  private interface Method<R> {
    R get() throws Exception;
  }

  private static <R> void respond(CallContext call, StreamObserver<R> out, Method<R> method) {
    try {
      checkContract(call);
      out.onNext(method.get());
      out.onCompleted();
    } catch (Throwable e) {
      out.onError(status(e));
    }
  }

  /** Throws if the bridge that makes a call was built with another version of the contract. */
  private static void checkContract(CallContext call) {
    int version = Math.max(call.getVerified().getContractVersion(), 1); // Version 1 had no such field.
    if (version != CONTRACT) {
      throw new CallStatus(
          Status.Code.FAILED_PRECONDITION,
          "the bridge has version " + version + " of the contract, and this SDK has version " + CONTRACT
              + ": install an mcpbridge and an SDK of the same release");
    }
  }

  // Methods that run handlers.

  @Override
  public void complete(CompleteRequest request, StreamObserver<CompleteResponse> out) {
    // Without a cancel handler, gRPC throws if a canceled call is answered.
    ((ServerCallStreamObserver<CompleteResponse>) out).setOnCancelHandler(() -> {});
    execute(
        out,
        () -> respond(request.getContext(), out, () -> app.complete(request)),
        message -> out.onError(Status.INTERNAL.withDescription(message).asRuntimeException()));
  }

  @Override
  public void callTool(CallToolRequest request, StreamObserver<CallToolResponse> out) {
    stream(
        request,
        request.getContext(),
        request.getInputResponsesMap(),
        request.hasRequestState() ? request.getRequestState() : null,
        out,
        new Wrap<>(
            p -> CallToolResponse.newBuilder().setProgress(p).build(),
            l -> CallToolResponse.newBuilder().setLog(l).build(),
            () -> CallToolResponse.newBuilder().setTaskStarted(TaskStarted.getDefaultInstance()).build(),
            r -> CallToolResponse.newBuilder().setResult((CallToolResult) r).build(),
            i -> CallToolResponse.newBuilder().setInputRequired(i).build()),
        Content::failure,
        ctx -> app.callTool(request.getName(), request.getArguments(), ctx));
  }

  @Override
  public void readResource(ReadResourceRequest request, StreamObserver<ReadResourceResponse> out) {
    stream(
        request,
        request.getContext(),
        request.getInputResponsesMap(),
        request.hasRequestState() ? request.getRequestState() : null,
        out,
        new Wrap<>(
            p -> ReadResourceResponse.newBuilder().setProgress(p).build(),
            l -> ReadResourceResponse.newBuilder().setLog(l).build(),
            null,
            r -> ReadResourceResponse.newBuilder().setResult((ReadResourceResult) r).build(),
            i -> ReadResourceResponse.newBuilder().setInputRequired(i).build()),
        null,
        ctx -> app.readResource(request, ctx));
  }

  @Override
  public void getPrompt(GetPromptRequest request, StreamObserver<GetPromptResponse> out) {
    stream(
        request,
        request.getContext(),
        request.getInputResponsesMap(),
        request.hasRequestState() ? request.getRequestState() : null,
        out,
        new Wrap<>(
            p -> GetPromptResponse.newBuilder().setProgress(p).build(),
            l -> GetPromptResponse.newBuilder().setLog(l).build(),
            null,
            r -> GetPromptResponse.newBuilder().setResult((GetPromptResult) r).build(),
            i -> GetPromptResponse.newBuilder().setInputRequired(i).build()),
        null,
        ctx -> app.getPrompt(request, ctx));
  }

  /** Converts the events of a call to responses of its method. {@code taskStarted} is for tools only. */
  private record Wrap<R>(
      Function<Progress, R> progress,
      Function<LogMessage, R> log,
      Supplier<R> taskStarted,
      Function<MessageLite, R> result,
      Function<InputRequired, R> ask) {
    R last(MessageLite message) {
      return message instanceof InputRequired i ? ask.apply(i) : result.apply(message);
    }
  }

  private <R> void stream(
      Message request,
      CallContext call,
      Map<String, InputResponse> responses,
      ByteString state,
      StreamObserver<R> observer,
      Wrap<R> wrap,
      Function<String, MessageLite> failure, // Null if the method has no error results.
      Function<Context, MessageLite> handler) {
    var out = (ServerCallStreamObserver<R>) observer;
    var writer = new Writer<>(out, wrap);
    Context ctx = new Context(app, request, call, responses, state, writer);
    out.setOnReadyHandler(writer::wake);
    out.setOnCancelHandler(
        () -> {
          ctx.cancel();
          writer.wake();
        });
    execute(
        out,
        () -> {
          try {
            checkContract(call);
            writer.finish(wrap.last(handler.apply(ctx)));
          } catch (CancellationException e) {
            writer.fail(Status.CANCELLED.asRuntimeException());
          } catch (Throwable e) {
            writer.fail(status(e));
          }
        },
        message -> {
          if (failure == null) {
            writer.fail(Status.INTERNAL.withDescription(message).asRuntimeException());
          } else {
            writer.finish(wrap.last(failure.apply(message)));
          }
        });
  }

  private void execute(StreamObserver<?> out, Runnable work, Consumer<String> end) {
    running.incrementAndGet();
    try {
      handlers.execute(
          () -> {
            failFunctions.put(Thread.currentThread(), end);
            try {
              work.run();
            } finally {
              failFunctions.remove(Thread.currentThread());
              running.decrementAndGet();
            }
          });
    } catch (RuntimeException e) { // Shut down.
      running.decrementAndGet();
      out.onError(Status.UNAVAILABLE.withDescription("the backend is stopping").asRuntimeException());
    }
  }

  /** Writes the events of a call in order, with flow control, and nothing after the last one. */
  private static final class Writer<R> implements Context.Events {
    private final ServerCallStreamObserver<R> out;
    private final Wrap<R> wrap;
    private final ReentrantLock lock = new ReentrantLock(); // Guards out and closed.
    private final Condition writable = lock.newCondition();
    private boolean closed;

    Writer(ServerCallStreamObserver<R> out, Wrap<R> wrap) {
      this.out = out;
      this.wrap = wrap;
    }

    @Override
    public void progress(Progress progress) {
      send(wrap.progress.apply(progress));
    }

    @Override
    public void log(LogMessage message) {
      send(wrap.log.apply(message));
    }

    @Override
    public void taskStarted() {
      send(wrap.taskStarted.get());
    }

    private void send(R event) {
      lock.lock();
      try {
        while (!closed && !out.isCancelled() && !out.isReady()) {
          writable.await();
        }
        if (!closed && !out.isCancelled()) {
          out.onNext(event);
        }
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt(); // The call was canceled; the handler is interrupted too.
      } finally {
        lock.unlock();
      }
    }

    void wake() {
      lock.lock();
      try {
        writable.signalAll();
      } finally {
        lock.unlock();
      }
    }

    void finish(R last) {
      end(
          () -> {
            out.onNext(last);
            out.onCompleted();
          });
    }

    void fail(RuntimeException status) {
      end(() -> out.onError(status));
    }

    private void end(Runnable how) {
      lock.lock();
      try {
        closed = true;
        writable.signalAll();
        // Also if the call was canceled: gRPC discards the response, and the bridge waits for the end of framed calls.
        how.run();
      } finally {
        lock.unlock();
      }
    }
  }

  // Errors.

  private static RuntimeException status(Throwable e) {
    if (e instanceof CallStatus s) {
      return s.status.asRuntimeException();
    }
    if (e instanceof McpException m) {
      return statusOf(m);
    }
    System.getLogger("mcpbridge").log(System.Logger.Level.ERROR, "a call failed: " + e, e);
    return Status.INTERNAL.withDescription(String.valueOf(e)).asRuntimeException();
  }

  /** Returns a gRPC status whose details contain the exact JSON-RPC error. */
  private static RuntimeException statusOf(McpException e) {
    Status.Code code =
        e.code() == -32600 || e.code() == -32602
            ? Status.Code.INVALID_ARGUMENT
            : e.code() == -32601
                ? Status.Code.UNIMPLEMENTED
                : e.code() == -32603 ? Status.Code.INTERNAL : Status.Code.UNKNOWN;
    String message = e.getMessage() == null ? "" : e.getMessage();
    var error = JsonRpcError.newBuilder().setCode(e.code()).setMessage(message);
    if (e.data() != null) {
      error.setData(Json.lenient(e.data()));
    }
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(code.value())
            .setMessage(message)
            .addDetails(Any.pack(error.build()))
            .build());
  }
}
