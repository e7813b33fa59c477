package com.example.plain;

import dev.mcpbridge.v1.*;
import io.grpc.*;
import io.grpc.netty.NettyServerBuilder;
import io.grpc.protobuf.services.HealthStatusManager;
import io.grpc.stub.StreamObserver;
import java.net.InetSocketAddress;
import java.util.concurrent.TimeUnit;
import tools.jackson.databind.json.JsonMapper;

/**
 * A backend without an SDK: gRPC and the generated stubs. It listens at the port of this machine that is its argument.
 */
public final class Backend extends McpServiceGrpc.McpServiceImplBase { // Other methods are UNIMPLEMENTED.
  @Override
  public void discover(DiscoverRequest request, StreamObserver<DiscoverResponse> out) {
    var info = Implementation.newBuilder().setName("plain").setVersion("1");
    var has = ServerCapabilities.newBuilder().setTools(ToolsCapability.getDefaultInstance());
    answer(out, DiscoverResponse.newBuilder().setContractVersion(2).setServerInfo(info).setCapabilities(has).build());
  }

  @Override
  public void listTools(ListToolsRequest request, StreamObserver<ListToolsResponse> out) {
    if (request.hasCursor()) {
      out.onError(Status.INVALID_ARGUMENT.withDescription("there is one page only").asException());
      return;
    }
    String schema =
        "{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'integer'}},'required':['a','b']}"
            .replace('\'', '"');
    var add = Tool.newBuilder().setName("add").setDescription("Add two numbers.").setInputSchema(schema);
    answer(out, ListToolsResponse.newBuilder().addTools(add).build());
  }

  @Override
  public void callTool(CallToolRequest request, StreamObserver<CallToolResponse> out) {
    if (!request.getName().equals("add")) {
      out.onError(Status.NOT_FOUND.withDescription("there is no tool '" + request.getName() + "'").asException());
      return;
    }
    // The bridge has held them against the schema.
    var in = JsonMapper.shared().readTree(request.getArguments().toByteArray());
    var text =
        TextContent.newBuilder().setText(in.get("a").bigIntegerValue().add(in.get("b").bigIntegerValue()).toString());
    var result = CallToolResult.newBuilder().addContent(ContentBlock.newBuilder().setText(text));
    answer(out, CallToolResponse.newBuilder().setResult(result).build());
  }

  private static <M> void answer(StreamObserver<M> out, M message) {
    out.onNext(message);
    out.onCompleted();
  }

  public static void main(String[] args) throws Exception {
    var address = new InetSocketAddress("127.0.0.1", Integer.parseInt(args[0]));
    var builder = NettyServerBuilder.forAddress(address).addService(new Backend()).maxInboundMessageSize(64 << 20);
    Server server = builder.addService(new HealthStatusManager().getHealthService()).build().start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(server))); // At SIGTERM.
    server.awaitTermination();
  }

  private static void stop(Server server) {
    try {
      server.shutdown().awaitTermination(5, TimeUnit.SECONDS);
    } catch (InterruptedException e) { /* Then at once. */ }
    Runtime.getRuntime().halt(0);
  }
}
