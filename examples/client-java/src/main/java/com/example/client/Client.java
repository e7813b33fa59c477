package com.example.client;

import com.google.protobuf.ByteString;
import com.google.rpc.ErrorInfo;
import dev.mcpbridge.v1.*;
import io.grpc.Context;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.MetadataUtils;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.nio.NioIoHandler;
import io.netty.channel.socket.nio.NioDomainSocketChannel;
import io.netty.util.concurrent.DefaultThreadFactory;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.URI;
import java.net.UnixDomainSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/**
 * Drives any MCP server through mcpbridge, with generated stubs and nothing else: docs/clients.md.
 *
 * <p>It reads commands from stdin, one a line: list | call TOOL {ARGUMENTS} | read URI | listen [URI]. It prints the
 * questions of servers, and reads the answer from the next line: the content of a form in JSON, or the text of a model.
 */
public final class Client {
  // Servers send only input requests that the client supports, and progress only if requested.
  private static final CallContext CALLER =
      CallContext.newBuilder()
          .setClientInfo(Implementation.newBuilder().setName("client-java").setVersion("1.0"))
          .setClientCapabilities(
              ClientCapabilities.newBuilder()
                  .setElicitation(ElicitationCapability.newBuilder().setForm(Capability.getDefaultInstance()))
                  .setSampling(SamplingCapability.getDefaultInstance()))
          .setProgressWanted(true)
          .build();

  private static final BufferedReader IN = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
  private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);
  private static McpServiceGrpc.McpServiceBlockingStub stub; // A single stub suffices. It is thread-safe.

  public static void main(String[] args) throws IOException {
    if (args.length == 0 || args[0].isEmpty()) {
      System.err.println("usage: client-java.jar ADDRESS [SERVER], where ADDRESS is unix:///path or host:port");
      System.exit(2);
    }
    ManagedChannel channel = connect(args[0]);
    Metadata metadata = new Metadata();
    if (args.length > 1) {
      metadata.put(Metadata.Key.of("mcpbridge-server", Metadata.ASCII_STRING_MARSHALLER), args[1]);
    }
    stub =
        McpServiceGrpc.newBlockingStub(channel).withInterceptors(MetadataUtils.newAttachHeadersInterceptor(metadata));
    for (String line; (line = IN.readLine()) != null; ) {
      String[] words = (line + "   ").split(" ", 3);
      try {
        switch (words[0]) {
          case "list" -> list();
          case "call" -> call(words[1], words[2].strip());
          case "read" -> read(words[1]);
          case "listen" -> listen(words[1]);
          default -> OUT.println("there is no command " + words[0]);
        }
      } catch (StatusRuntimeException e) {
        explain(e);
      }
    }
    channel.shutdownNow();
  }

  private static ManagedChannel connect(String address) {
    if (!address.startsWith("unix:")) {
      return NettyChannelBuilder.forTarget(address).usePlaintext().build();
    }
    return NettyChannelBuilder.forAddress(UnixDomainSocketAddress.of(Path.of(URI.create(address).getPath())))
        .channelType(NioDomainSocketChannel.class, UnixDomainSocketAddress.class)
        .eventLoopGroup(
            new MultiThreadIoEventLoopGroup(1, new DefaultThreadFactory("grpc", true), NioIoHandler.newFactory()))
        .overrideAuthority("localhost")
        .usePlaintext()
        .build();
  }

  /** A longer call is canceled, also at the server. */
  private static McpServiceGrpc.McpServiceBlockingStub mcp() {
    return stub.withDeadlineAfter(60, TimeUnit.SECONDS);
  }

  private static void list() {
    var request = ListToolsRequest.newBuilder().setContext(CALLER);
    while (true) {
      ListToolsResponse page = mcp().listTools(request.build());
      page.getToolsList().forEach(tool -> OUT.println("tool " + tool.getName()));
      if (!page.hasNextCursor()) {
        return;
      }
      request.setCursor(page.getNextCursor());
    }
  }

  private static void call(String name, String arguments) throws IOException {
    var request =
        CallToolRequest.newBuilder().setContext(CALLER).setName(name).setArguments(ByteString.copyFromUtf8(arguments));
    for (var events = mcp().callTool(request.build()); events.hasNext(); ) {
      CallToolResponse event = events.next();
      switch (event.getEventCase()) {
        case PROGRESS ->
            OUT.printf("progress %.0f of %.0f%n", event.getProgress().getProgress(), event.getProgress().getTotal());
        case INPUT_REQUIRED -> { // The call has ended. Repeat it with the answers and the state.
          InputRequired asked = event.getInputRequired();
          request.setRequestState(asked.getRequestState()).clearInputResponses();
          if (!asked.hasRequestState()) {
            request.clearRequestState();
          }
          for (var question : asked.getInputRequestsList()) {
            request.putInputResponses(question.getKey(), answer(question));
          }
          events = mcp().callTool(request.build());
        }
        case RESULT -> // Or getImage, getAudio, getResource, getResourceLink.
            event.getResult().getContentList().forEach(block -> OUT.println(block.getText().getText()));
        default -> {}
      }
    }
  }

  private static InputResponse answer(InputRequest question) throws IOException {
    var answer = InputResponse.newBuilder();
    if (question.hasCreateMessage()) {
      String text = ask("model", question.getCreateMessage().getMessages(0).getContent(0).getText().getText());
      answer
          .getCreateMessageBuilder()
          .setRole("assistant")
          .setModel("you")
          .addContentBuilder()
          .getTextBuilder()
          .setText(text);
    } else {
      String form = ask("question", question.getElicit().getForm().getMessage());
      answer.getElicitBuilder().setAction("accept").setContent(form);
    }
    return answer.build();
  }

  private static String ask(String who, String question) throws IOException {
    OUT.println(who + ": " + question);
    return IN.readLine();
  }

  private static void read(String uri) {
    mcp().readResource(ReadResourceRequest.newBuilder().setContext(CALLER).setUri(uri).build())
        .forEachRemaining(event -> event.getResult().getContentsList()
            .forEach(contents -> OUT.println(contents.getUri() + ": " + contents.getText()))); // Or getBlob.
  }

  /** Waits for one change, and cancels the call. */
  private static void listen(String uri) {
    var filter = SubscriptionFilter.newBuilder().setToolsListChanged(true);
    if (!uri.isEmpty()) {
      filter.addResourceSubscriptions(uri);
    }
    var request = ListenRequest.newBuilder().setContext(CALLER).setNotifications(filter).build();
    try (Context.CancellableContext call = Context.current().withCancellation()) {
      call.run(
          () -> {
            for (var events = mcp().listen(request); events.hasNext(); ) {
              ListenResponse event = events.next();
              if (event.hasAcknowledged()) {
                OUT.println("listening");
              } else {
                OUT.println(
                    "changed: "
                        + (event.hasResourceUpdated() ? event.getResourceUpdated().getUri() : "the list of tools"));
                return;
              }
            }
          });
    }
  }

  private static void explain(StatusRuntimeException e) throws IOException {
    OUT.println("error " + e.getStatus().getCode() + ": " + e.getStatus().getDescription());
    for (var detail : StatusProto.fromThrowable(e).getDetailsList()) {
      if (detail.is(ErrorInfo.class)) {
        ErrorInfo info = detail.unpack(ErrorInfo.class);
        OUT.println("  " + info.getReason() + " " + info.getMetadataMap().get("outcome"));
      } else if (detail.is(JsonRpcError.class)) {
        JsonRpcError exact = detail.unpack(JsonRpcError.class);
        OUT.println("  JSON-RPC " + exact.getCode() + " " + exact.getData());
      }
    }
  }
}
