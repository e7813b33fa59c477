package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import com.google.protobuf.Empty;
import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.CallToolResponse;
import dev.mcpbridge.v1.McpServiceGrpc;
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.netty.NegotiationType;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.ProtoUtils;
import io.grpc.stub.ClientCalls;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.netty.channel.socket.nio.NioSocketChannel;
import io.netty.handler.ssl.SslContext;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.io.BufferedReader;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** A process of {@link Tools}, started and called as the bridge does. */
final class Plugin implements AutoCloseable {
  static final Map<String, String> COOKIE = Map.of("MCPBRIDGE_PLUGIN", "mcpbridge.v1", "PLUGIN_PROTOCOL_VERSIONS", "1");
  private static final EventLoopGroup LOOP =
      new MultiThreadIoEventLoopGroup(1, new DefaultThreadFactory("test", true), NioIoHandler.newFactory());

  final Process process;
  final BufferedReader stdout;
  final List<String> before = new ArrayList<>();
  final String line;
  final String[] fields;
  private final Path stderr;
  private final List<ManagedChannel> channels = new ArrayList<>();

  /** The command of a Java program with the tests' own classpath. */
  static List<String> java(Class<?> main, String... args) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(List.of("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"));
    command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    command.addAll(List.of(args));
    return command;
  }

  Plugin(Path folder, Map<String, String> env, String... args) throws IOException {
    stderr = Files.createTempFile(folder, "stderr", "");
    ProcessBuilder builder = new ProcessBuilder(java(Tools.class, args)).redirectError(stderr.toFile());
    builder.environment().keySet().removeIf(name -> name.startsWith("MCP") || name.startsWith("PLUGIN_"));
    builder.environment().put("PLUGIN_UNIX_SOCKET_DIR", folder.toString());
    builder.environment().put("MCP_PLUGIN_LIFELINE", "stdin");
    builder.environment().putAll(env);
    process = builder.start();
    stdout = process.inputReader(StandardCharsets.UTF_8);
    String got = "";
    for (String next; (next = stdout.readLine()) != null; before.add(next)) {
      if (next.startsWith("1|")) {
        got = next;
        break;
      }
    }
    line = got;
    fields = line.split("\\|", -1);
  }

  String log() throws IOException {
    return Files.readString(stderr);
  }

  ManagedChannel channel() {
    return channel(null, "unix".equals(fields[2]) ? "unix:" + fields[3] : fields[3]);
  }

  ManagedChannel channel(SslContext tls, String address) {
    channels.add(dial(tls, address));
    return channels.get(channels.size() - 1);
  }

  static ManagedChannel dial(SslContext tls, String address) {
    NettyChannelBuilder builder;
    if (address.startsWith("unix:")) {
      builder =
          NettyChannelBuilder.forAddress(UnixDomainSocketAddress.of(address.substring("unix:".length())))
              .channelType(NioDomainSocketChannel.class);
    } else {
      int colon = address.lastIndexOf(':');
      var inet = new InetSocketAddress(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)));
      builder = NettyChannelBuilder.forAddress(inet).channelType(NioSocketChannel.class);
    }
    builder.eventLoopGroup(LOOP).overrideAuthority("localhost").maxInboundMessageSize(64 << 20);
    return (tls == null ? builder.negotiationType(NegotiationType.PLAINTEXT) : builder.sslContext(tls)).build();
  }

  static Iterator<CallToolResponse> call(ManagedChannel channel, String name, Object arguments) {
    var request =
        CallToolRequest.newBuilder()
            .setContext(Caller.EVERYTHING)
            .setName(name)
            .setArguments(ByteString.copyFromUtf8(InProcess.json(arguments)))
            .build();
    return McpServiceGrpc.newBlockingStub(channel).withDeadlineAfter(30, TimeUnit.SECONDS).callTool(request);
  }

  static String text(ManagedChannel channel, String name, Object arguments) {
    CallToolResponse last = null;
    for (var events = call(channel, name, arguments); events.hasNext(); ) {
      last = events.next();
    }
    return last == null ? "" : last.getResult().getContent(0).getText().getText();
  }

  static void shutdown(ManagedChannel channel) {
    var marshaller = ProtoUtils.marshaller(Empty.getDefaultInstance());
    var method =
        MethodDescriptor.<Empty, Empty>newBuilder(marshaller, marshaller)
            .setType(MethodDescriptor.MethodType.UNARY)
            .setFullMethodName("plugin.GRPCController/Shutdown")
            .build();
    ClientCalls.blockingUnaryCall(channel, method, CallOptions.DEFAULT, Empty.getDefaultInstance());
  }

  static void until(BooleanSupplier what) throws InterruptedException {
    long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
    while (!what.getAsBoolean()) {
      assertTrue(System.nanoTime() < end, "it did not happen");
      Thread.sleep(10);
    }
  }

  /** The exit code, or -1 if the process does not end. */
  int exitCode(int seconds) throws InterruptedException {
    return process.waitFor(seconds, TimeUnit.SECONDS) ? process.exitValue() : -1;
  }

  @Override
  public void close() {
    channels.forEach(ManagedChannel::shutdownNow);
    process.destroyForcibly();
  }
}
