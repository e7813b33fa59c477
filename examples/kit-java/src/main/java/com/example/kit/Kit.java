package com.example.kit;

import com.google.protobuf.ByteString;
import dev.mcpbridge.App;
import dev.mcpbridge.Bridge;
import dev.mcpbridge.CompletePrompt;
import dev.mcpbridge.Context;
import dev.mcpbridge.Handler;
import dev.mcpbridge.Image;
import dev.mcpbridge.InvalidAnswerException;
import dev.mcpbridge.McpException;
import dev.mcpbridge.NoAnswerException;
import dev.mcpbridge.NotFoundException;
import dev.mcpbridge.Prompt;
import dev.mcpbridge.RefusedException;
import dev.mcpbridge.Resource;
import dev.mcpbridge.ResourceTemplate;
import dev.mcpbridge.ToolException;
import dev.mcpbridge.UnsupportedException;
import dev.mcpbridge.v1.Annotations;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.CallToolResult;
import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.CreateMessageRequest;
import dev.mcpbridge.v1.ElicitForm;
import dev.mcpbridge.v1.ElicitRequest;
import dev.mcpbridge.v1.InputRequest;
import dev.mcpbridge.v1.InputRequired;
import dev.mcpbridge.v1.ListRootsRequest;
import dev.mcpbridge.v1.LogLevel;
import dev.mcpbridge.v1.ReadResourceResult;
import dev.mcpbridge.v1.ResourceContents;
import dev.mcpbridge.v1.SamplingMessage;
import dev.mcpbridge.v1.TextContent;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import tools.jackson.databind.node.ObjectNode;

/**
 * The tools of the contract kit, written with the SDK for Java: the handler laws and {@code mcpbridge verify} call
 * them.
 *
 * <p>docs/verify.md describes them exactly. Try it: mcpbridge verify -- java -jar target/kit-java.jar
 */
public final class Kit {
  private static final String ANYTHING = "{\"type\":\"object\"}";
  private static final String ECHO =
      "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"},"
          + "\"in\":{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"x-mcp-header\":\"Count\"}}}}}";

  /** The calls of wait with one n. */
  private record Waiting(CountDownLatch started, CountDownLatch ended) {}

  private final App app = Bridge.app("bridgetest", "1").title("Bridge Test").instructions("call anything");
  private final Map<Integer, Waiting> waits = new ConcurrentHashMap<>();
  private final AtomicInteger serials = new AtomicInteger();

  public static void main(String[] args) {
    System.out.println("noise before the start"); // It is log, and not a handshake.
    new Kit().app.run(args);
  }

  private void tool(String name, Handler<ObjectNode, Object> handler) {
    app.tool(name).description("does " + name).inputSchema(name.equals("echo") ? ECHO : ANYTHING).handle(handler);
  }

  private Waiting waiting(ObjectNode in) {
    return waits.computeIfAbsent(in.get("n").asInt(), n -> new Waiting(new CountDownLatch(1), new CountDownLatch(1)));
  }

  private static String arguments(Context ctx) {
    return ctx.request(CallToolRequest.class).getArguments().toStringUtf8();
  }

  private Kit() {
    app.add(this);
    // In the order of their names: a list has one.
    tool(
        "add",
        (in, ctx) -> {
          String name = in.get("name").asString();
          tool(name, (any, c) -> name);
          return "added";
        });
    tool(
        "ask",
        (in, ctx) -> {
          ctx.progress(1);
          var answers = ctx.inputResponses();
          if (ctx.requestState().isPresent()) {
            return ctx.requestState().get().toStringUtf8() + " " + answers.get("right").getElicit().getContent();
          }
          if (!answers.containsKey("name")) {
            return InputRequired.newBuilder().addInputRequests(form("name", "who are you?", "name")).build();
          }
          var name = answers.get("name").getElicit();
          if (!name.getAction().equals("accept")) {
            return "the user said " + name.getAction();
          }
          ByteString state = ByteString.copyFromUtf8("name=" + name.getContent());
          return InputRequired.newBuilder()
              .addInputRequests(form("right", "is that right?", "yes"))
              .setRequestState(state)
              .build();
        });
    tool(
        "blob",
        (in, ctx) -> {
          byte[] data = new byte[in.get("size").asInt()];
          for (int i = 0; i < data.length; i++) {
            data[i] = (byte) (i % 251);
          }
          return new Image(data, "application/octet-stream");
        });
    tool(
        "count",
        (in, ctx) -> {
          ctx.progress(0, 2.0, "begin");
          ctx.log().debug("detail");
          ctx.progress(1, 2);
          ctx.progress(1, 2);
          ctx.log().named("l").warn(Map.of("n", 9007199254740993L));
          ctx.progress(2, 2);
          return "counted";
        });
    tool("echo", (in, ctx) -> arguments(ctx));
    tool(
        "ended",
        (in, ctx) -> {
          waiting(in).ended.await();
          return "ended";
        });
    tool(
        "exact",
        (in, ctx) -> {
          throw new McpException(-7, "no luck", Map.of("n", List.of(1)));
        });
    tool(
        "fail",
        (in, ctx) -> {
          throw new ToolException("it does not work");
        });
    tool(
        "levels",
        (in, ctx) -> {
          for (LogLevel level : LogLevel.values()) {
            if (level != LogLevel.LOG_LEVEL_UNSPECIFIED && level != LogLevel.UNRECOGNIZED) {
              ctx.log().log(level, level.name().substring("LOG_LEVEL_".length()).toLowerCase(Locale.ROOT));
            }
          }
          return "logged";
        });
    tool(
        "many",
        (in, ctx) -> {
          var answers = ctx.inputResponses();
          if (answers.isEmpty()) {
            var message = SamplingMessage.newBuilder().setRole("user").addContent(text("2+2?"));
            var model = CreateMessageRequest.newBuilder().setMaxTokens(10).addMessages(message);
            return InputRequired.newBuilder()
                .addInputRequests(form("form", "q", "a"))
                .addInputRequests(InputRequest.newBuilder().setKey("model").setCreateMessage(model))
                .addInputRequests(
                    InputRequest.newBuilder().setKey("roots").setListRoots(ListRootsRequest.getDefaultInstance()))
                .build();
          }
          String content = answers.get("form").getElicit().getContent();
          String text = answers.get("model").getCreateMessage().getContent(0).getText().getText();
          return "form=" + content + " model=" + text + " roots=" + answers.get("roots").getListRoots().getRootsCount();
        });
    tool(
        "meta",
        (in, ctx) -> {
          var request = ctx.request(CallToolRequest.class);
          return CallToolResult.newBuilder()
              .addContent(text("meta"))
              .setMeta(request.getContext().getMeta())
              .setExtra(request.getExtra())
              .build();
        });
    tool(
        "noise",
        (in, ctx) -> {
          System.out.println("noise on stdout");
          System.out.println("x".repeat(100_000));
          System.err.println("noise on stderr");
          return "quiet";
        });
    tool(
        "remove",
        (in, ctx) -> {
          app.removeTool(in.get("name").asString());
          return "removed";
        });
    tool(
        "sleep",
        (in, ctx) -> {
          Thread.sleep(in.get("ms").asInt());
          return "slept";
        });
    tool(
        "started",
        (in, ctx) -> {
          waiting(in).started.await();
          return "started";
        });
    tool(
        "steps",
        (in, ctx) -> {
          if (!in.path("n").isIntegralNumber()) {
            throw new ToolException("n is a whole number");
          }
          int n = in.get("n").asInt();
          for (int i = 0; i < n; i++) {
            ctx.progress(i);
          }
          return n + " steps";
        });
    tool(
        "structured",
        (in, ctx) ->
            CallToolResult.newBuilder()
                .setStructuredContent(ctx.request(CallToolRequest.class).getArguments())
                .build());
    tool(
        "survey",
        (in, ctx) -> {
          int serial = ctx.once("serial", Integer.class, serials::incrementAndGet);
          var all = ctx.askAll();
          var name = all.elicit("What is your name?", String.class);
          var age = all.elicit("How old are you?", Integer.class);
          String who = name.data() + " is " + age.data();
          return who + ": " + ctx.elicit(who + ", right?", Boolean.class).data() + ", " + serial;
        });
    tool(
        "tell",
        (in, ctx) -> {
          try {
            var answer = ctx.elicit("Say something.", String.class);
            return answer.accepted() ? "accepted: " + answer.data() : answer.declined() ? "declined" : "cancelled";
          } catch (UnsupportedException e) {
            return "unsupported";
          } catch (NoAnswerException e) {
            return "no answer";
          } catch (RefusedException e) {
            return "refused";
          } catch (InvalidAnswerException e) {
            return "invalid";
          }
        });
    tool(
        "unknown",
        (in, ctx) -> {
          var answer = ctx.inputResponses().get("new");
          if (answer == null) {
            String raw = "{\"method\":\"acme/ask\",\"params\":{\"n\":9007199254740993}}";
            return InputRequired.newBuilder()
                .addInputRequests(InputRequest.newBuilder().setKey("new").setRaw(raw))
                .build();
          }
          var text =
              TextContent.newBuilder()
                  .setText(answer.getRaw())
                  .setAnnotations(Annotations.newBuilder().addAudience("judge"));
          var acme = ContentBlock.newBuilder().setRaw("{\"type\":\"acme\",\"n\":9007199254740993}");
          return CallToolResult.newBuilder()
              .addContent(acme)
              .addContent(ContentBlock.newBuilder().setText(text))
              .build();
        });
    tool(
        "update",
        (in, ctx) -> {
          app.notifyUpdated(in.get("uri").asString());
          return "updated";
        });
    tool(
        "wait",
        (in, ctx) -> {
          Waiting waiting = waiting(in);
          waiting.started.countDown();
          try {
            new CountDownLatch(1).await();
            return "never";
          } finally {
            waiting.ended.countDown();
          }
        });
    tool(
        "who",
        (in, ctx) -> {
          var call = ctx.request(CallToolRequest.class).getContext();
          var can = ctx.clientCapabilities();
          boolean forms = can.hasElicitation() && (can.getElicitation().hasForm() || !can.getElicitation().hasUrl());
          return ctx.protocolVersion()
              + " "
              + ctx.clientInfo().getName()
              + " progress="
              + call.getProgressWanted()
              + " log="
              + call.getLogLevel()
              + " forms="
              + forms;
        });
  }

  private static ContentBlock text(String text) {
    return ContentBlock.newBuilder().setText(TextContent.newBuilder().setText(text)).build();
  }

  private static InputRequest form(String key, String message, String field) {
    String schema =
        "{\"type\":\"object\",\"properties\":{\""
            + field
            + "\":{\"type\":\"string\"}},\"required\":[\""
            + field
            + "\"]}";
    var form = ElicitForm.newBuilder().setMessage(message).setRequestedSchema(schema);
    return InputRequest.newBuilder().setKey(key).setElicit(ElicitRequest.newBuilder().setForm(form)).build();
  }

  // Resources and prompts.

  @Resource(uri = "test://a", title = "The A")
  public ReadResourceResult a() {
    var contents = ResourceContents.newBuilder().setUri("test://a").setMimeType("text/plain").setText("A");
    return ReadResourceResult.newBuilder().addContents(contents).setCacheScope("team").build();
  }

  @ResourceTemplate(uriTemplate = "test://{id}", name = "t")
  public String none(String id) {
    throw new NotFoundException("there is no " + id);
  }

  @Prompt
  public Object p(Optional<String> x, Context ctx) {
    if (x.isPresent()) {
      return "x is " + x.get();
    }
    var answer = ctx.inputResponses().get("x");
    if (answer == null || !answer.getElicit().getAction().equals("accept")) {
      return InputRequired.newBuilder().addInputRequests(form("x", "which x?", "x")).build();
    }
    return "x is " + answer.getElicit().getContent();
  }

  @CompletePrompt("p")
  public List<String> guess(String x) {
    return List.of(x + "!");
  }
}
