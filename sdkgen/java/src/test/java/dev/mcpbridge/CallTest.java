package dev.mcpbridge;

import com.google.protobuf.ByteString;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonProperty;
import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.CallToolResult;
import dev.mcpbridge.v1.CompleteRequest;
import dev.mcpbridge.v1.CompletionReference;
import dev.mcpbridge.v1.LogLevel;
import dev.mcpbridge.v1.Principal;
import dev.mcpbridge.v1.PromptMessage;
import dev.mcpbridge.v1.VerifiedCaller;
import io.grpc.Status;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.logging.Logger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.slf4j.LoggerFactory;

/** A call of a tool, resource or prompt. */
class CallTest {
  record Range(int from, Optional<Integer> to, @ToolArg(defaultValue = "1") int step) {}

  private final App app = Bridge.app("test", "1");
  private final Caller caller = new Caller(app);

  @Test
  void aLambdaIsATool() {
    app.tool("count")
        .description("Count.")
        .readOnly(true)
        .input(Range.class)
        .output(int[].class)
        .handle(
            (r, ctx) ->
                IntStream.rangeClosed(r.from, r.to.orElse(r.from)).filter(i -> (i - r.from) % r.step == 0).toArray());
    assertEquals("[1,3,5]", caller.tool("count", new Range(1, Optional.of(5), 2)).text());
    assertEquals("[4]", caller.tool("count", Map.of("from", 4)).text());
    app.tool("raw")
        .inputSchema("{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\"}}}")
        .handle((json, ctx) -> json.get("n"));
    assertEquals("9007199254740993", caller.tool("raw", Map.of("n", 9007199254740993L)).text());
    assertTrue(caller.tool("raw", Map.of("n", "x")).text().contains("- n: string found, integer expected, got \"x\""));
  }

  static final class Numbers {
    @Tool
    public String show(
        int i, Optional<String> text, @ToolArg(defaultValue = "1.10") BigDecimal price, List<Integer> list) {
      return i + " " + text + " " + price + " " + list;
    }
  }

  @Test
  void argumentsAreBoundAndChecked() {
    app.add(new Numbers());
    assertEquals("1 Optional.empty 1.10 [2]", caller.tool("show", Map.of("i", 1, "list", List.of(2))).text());
    assertEquals(
        "1 Optional[t] 123456789012345678.90 []",
        caller
            .tool(
                "show",
                Map.of("i", 1, "text", "t", "price", new BigDecimal("123456789012345678.90"), "list", List.of()))
            .text());
    var called = caller.tool("show", Map.of("i", "one", "list", List.of(1, "two"), "texd", 1));
    assertTrue(called.isError());
    assertEquals(
        List.of(
            "- i: string found, integer expected, got \"one\"",
            "- list.1: string found, integer expected, got \"two\"",
            "- texd: does not exist; did you mean text?"),
        called.text().lines().filter(l -> l.startsWith("- ")).sorted().toList());
    assertTrue(
        called.text().endsWith("Usage: show(i: integer, text: string = ..., price: number = 1.10, list: integer[])"),
        called.text());
    assertTrue(
        caller
            .tool("show", Map.of("i", 3_000_000_000L, "list", List.of()))
            .text()
            .startsWith("show: the arguments are invalid.\n- i: "));
  }

  record Item(@ToolArg(defaultValue = "7") int n, Optional<String> note) {}

  static class Above {
    @Tool
    public String deep(List<Item> list, Map<String, Item> map) {
      return list + " " + map;
    }

    @Tool(description = "above")
    public String twice() {
      return "above";
    }
  }

  static final class Below extends Above {
    @Tool(description = "below")
    @Override
    public String twice() {
      return "below";
    }
  }

  @Test
  void defaultsAreSetAtEveryDepth() {
    app.add(new Below());
    String item = "Item[n=7, note=Optional.empty]";
    assertEquals(
        "[" + item + "] {k=" + item + "}",
        caller.tool("deep", Map.of("list", List.of(Map.of()), "map", Map.of("k", Map.of()))).text());
    assertEquals("below", caller.tool("twice").text());
    assertEquals(List.of("", "below"), caller.tools().stream().map(t -> t.getDescription()).toList());
  }

  @Test
  void argumentsThatAreNotJsonAreNamed() {
    // The bridge rejects these.
    app.tool("t").handle((json, ctx) -> "");
    for (String bad : List.of("[1", "[1]", "\"x\"")) {
      Context ctx = new Context(app, null, Caller.EVERYTHING, Map.of(), null, null);
      var result = (CallToolResult) app.callTool("t", ByteString.copyFromUtf8(bad), ctx);
      assertTrue(
          result.getContent(0).getText().getText().startsWith("t: the arguments are invalid.\n- (all): it is not"),
          bad);
    }
  }

  static final class Results {
    @Tool
    public List<Object> content() {
      return List.of(
          "text",
          new Image(new byte[] {1}),
          new Audio(new byte[] {2}, "audio/ogg"),
          new Embedded("file:///a", Map.of("k", 1)),
          new Link("file:///dir/b.txt"));
    }

    @Tool
    public CallToolResult exactly() {
      return CallToolResult.newBuilder().setStructuredContent(ByteString.copyFromUtf8("1")).build();
    }

    @Tool
    public Object anything(int which) {
      return switch (which) {
        case 0 -> null;
        case 1 -> Map.of("a", 1);
        case 2 -> List.of("x", "y");
        default -> new byte[1];
      };
    }

    @Tool
    public Image picture() {
      return new Image(new byte[] {1}, "image/gif");
    }

    @Tool
    public CompletableFuture<String> async(boolean fails) {
      return fails
          ? CompletableFuture.failedFuture(new ToolException("later"))
          : CompletableFuture.supplyAsync(() -> "later");
    }
  }

  @Test
  void resultsAreContent() {
    app.add(new Results());
    var blocks = caller.tool("content").result().getContentList();
    assertEquals("text", blocks.get(0).getText().getText());
    assertEquals("image/png", blocks.get(1).getImage().getMimeType());
    assertArrayEquals(new byte[] {2}, blocks.get(2).getAudio().getData().toByteArray());
    assertEquals("{\"k\":1}", blocks.get(3).getResource().getResource().getText());
    assertEquals("application/json", blocks.get(3).getResource().getResource().getMimeType());
    assertEquals("b.txt", blocks.get(4).getResourceLink().getName());
    assertEquals("1", caller.tool("exactly").structured());
    assertEquals(0, caller.tool("anything", Map.of("which", 0)).result().getContentCount());
    assertEquals("{\"a\":1}", caller.tool("anything", Map.of("which", 1)).structured());
    assertEquals("{\"result\":[\"x\",\"y\"]}", caller.tool("anything", Map.of("which", 2)).structured());
    assertTrue(caller.tool("anything", Map.of("which", 3)).text().contains("a tool cannot return byte[]"));
    assertEquals("image/gif", caller.tool("picture").result().getContent(0).getImage().getMimeType());
    assertEquals("later", caller.tool("async", Map.of("fails", false)).text());
    assertTrue(caller.tool("async", Map.of("fails", true)).isError());
  }

  static final class Failures {
    @Tool
    public String fail(String how) throws IOException {
      switch (how) {
        case "tool" -> throw new ToolException("on purpose");
        case "null" -> throw new IllegalStateException();
        case "file" -> throw new NoSuchFileException("/x");
        case "deep" -> {
          return fail(how);
        }
        case "exact" -> throw new McpException(-1, "exact");
        default -> throw new IllegalArgumentException("what?");
      }
    }
  }

  @Test
  void aFailureIsAResultWithItsReason() {
    app.add(new Failures());
    assertEquals("on purpose", caller.tool("fail", Map.of("how", "tool")).text());
    assertEquals("IllegalStateException", caller.tool("fail", Map.of("how", "null")).text());
    assertEquals("NoSuchFileException: /x", caller.tool("fail", Map.of("how", "file")).text());
    assertEquals("StackOverflowError", caller.tool("fail", Map.of("how", "deep")).text());
    assertEquals("what?", caller.tool("fail", Map.of("how", "?")).text());
    assertTrue(caller.tool("fail", Map.of("how", "?")).isError());
    assertEquals(-1, assertThrows(McpException.class, () -> caller.tool("fail", Map.of("how", "exact"))).code());
    var unknown = assertThrows(CallStatus.class, () -> caller.tool("fial"));
    assertEquals("there is no tool \"fial\"; did you mean \"fail\"?", unknown.getMessage());
  }

  static final class Talks {
    private static final Logger LOGGER = Logger.getLogger("talks");

    @Tool
    public String talk(Progress progress, Log log, Cancellation cancellation, Context ctx) {
      progress.progress(1);
      progress.progress(2, 3);
      progress.progress(3, 3, "done");
      log.debug("{} of {}", 1, 2);
      log.named("db").warn(Map.of("a", 1));
      log.error("broken", new IOException("why"));
      LOGGER.info("by the logger");
      cancellation.check();
      return ctx.clientInfo().getName()
          + " "
          + ctx.principal().map(Principal::getSubject).orElse("anonymous")
          + " "
          + ctx.headers()
          + " "
          + ctx.meta()
          + " "
          + ctx.protocolVersion();
    }
  }

  @Test
  void theContextSendsAndReceives() {
    app.add(new Talks()).forwardLogs("talks");
    var called = caller.tool("talk");
    assertEquals("dev.mcpbridge.testing anonymous {} {} 2026-07-28", called.text());
    assertEquals(List.of(1.0, 2.0, 3.0), called.progress().stream().map(p -> p.getProgress()).toList());
    assertFalse(called.progress().get(0).hasTotal());
    assertEquals("done", called.progress().get(2).getMessage());
    assertEquals(
        List.of("\"1 of 2\"", "{\"a\":1}", "\"broken: java.io.IOException: why\"", "\"by the logger\""),
        called.logs().stream().map(l -> l.getData()).toList());
    assertEquals("db", called.logs().get(1).getLogger());
    var quiet =
        CallContext.newBuilder()
            .setLogLevel(LogLevel.LOG_LEVEL_WARNING)
            .setVerified(
                VerifiedCaller.newBuilder()
                    .setPrincipal(Principal.newBuilder().setSubject("ada"))
                    .putHeaders("x-a", "1"))
            .setMeta("{\"m\":1}")
            .build();
    called = new Caller(app).context(quiet).tool("talk");
    assertEquals(" ada {x-a=1} {\"m\":1} ", called.text());
    assertEquals(List.of(), called.progress());
    assertEquals(2, called.logs().size());
  }

  @Test
  void textThatIsNotAsciiStaysTheSame() {
    String unicode = "Zoë: \"東京\u2028\" 😀";
    var meta = Map.of(unicode, List.of(unicode));
    app.tool("say")
        .description(unicode)
        .meta(meta)
        .inputSchema("{\"type\":\"object\"}")
        .handle(
            (in, ctx) -> {
              ctx.log().info(in);
              return Map.of(
                  "answer",
                  ctx.elicitJson(unicode, "{\"type\":\"object\",\"properties\":{\"é\":{\"type\":\"string\"}}}").data(),
                  "meta",
                  ctx.meta());
            });
    var context = Caller.EVERYTHING.toBuilder().setMeta(Json.text(meta)).build();
    var called = new Caller(app).context(context).answers(Map.of("é", unicode)).tool("say", Map.of("text", unicode));
    assertEquals(
        Json.parse(Json.text(Map.of("answer", Map.of("é", unicode), "meta", meta))), Json.parse(called.structured()));
    assertEquals(called.structured(), called.text());
    assertEquals(Json.text(Map.of("text", unicode)), called.logs().get(0).getData());
    var form = called.asked().get(0).getElicit().getForm();
    assertEquals(
        unicode + "{\"é\":{\"type\":\"string\"}}",
        form.getMessage() + Json.object(form.getRequestedSchema()).get("properties"));
    assertEquals(unicode + Json.text(meta), caller.tools().get(0).getDescription() + caller.tools().get(0).getMeta());
  }

  @Test
  void slf4jIsForwarded() {
    app.tool("talk").handle((in, ctx) -> {
      LoggerFactory.getLogger("slf4j.talks").warn("{} of {}", 1, 2);
      return "";
    });
    app.forwardLogs("slf4j");
    var logs = caller.tool("talk").logs();
    assertEquals(
        "[\"1 of 2\"] slf4j.talks", logs.stream().map(l -> l.getData()).toList() + " " + logs.get(0).getLogger());
    assertEquals(LogLevel.LOG_LEVEL_WARNING, logs.get(0).getLevel());
  }

  @Test
  @SuppressWarnings("FutureReturnValueIgnored") // It is returned.
  void cancellationEndsWaiting() throws Exception {
    var never = new CompletableFuture<String>();
    List<String> actions = new ArrayList<>();
    CountDownLatch started = new CountDownLatch(1);
    app.tool("wait")
        .handle(
            (in, ctx) -> {
              ctx.onCancelled(() -> actions.add("canceled"));
              started.countDown();
              return never;
            });
    Context ctx = new Context(app, null, Caller.EVERYTHING, Map.of(), null, null);
    var call = CompletableFuture.supplyAsync(() -> app.callTool("wait", ByteString.EMPTY, ctx));
    assertTrue(started.await(10, TimeUnit.SECONDS));
    ctx.cancel();
    assertInstanceOf(
        CancellationException.class,
        assertThrows(ExecutionException.class, () -> call.get(10, TimeUnit.SECONDS)).getCause());
    assertEquals("true [canceled]", never.isCancelled() + " " + actions);
    ctx.onCancelled(() -> actions.add("at once"));
    assertEquals(List.of("canceled", "at once"), actions);
  }

  static final class Library {
    @Resource(uri = "lib://motd", name = "motd", title = "Message of the day", mimeType = "text/markdown")
    public String motd() {
      return "# Hi";
    }

    @ResourceTemplate(uriTemplate = "lib://{shelf}/{+path}{?page,size}", name = "book")
    public Map<String, Object> book(String shelf, String path, Optional<Integer> page) {
      if (shelf.equals("none")) {
        throw new NotFoundException("no such shelf");
      }
      return Map.of("at", shelf + ":" + path + ":" + page.orElse(-1));
    }

    @Prompt(title = "Review")
    public List<Object> review(@PromptArg(description = "The code") String code, Optional<String> style, Context ctx) {
      return List.of(
          Message.user(code, new Image(new byte[1])), Message.assistant("In " + style.orElse("any") + " style?"));
    }

    @CompletePrompt("review")
    public List<String> complete(String style, Map<String, String> others) {
      return List.of(style + "!", others.getOrDefault("code", "?"));
    }
  }

  @Test
  void resourcesAreRead() {
    app.add(new Library());
    app.resource("lib://bytes").handle((none, ctx) -> new byte[] {7});
    app.resource("lib://null").handle((none, ctx) -> null);
    app.resource("lib://broken").handle((none, ctx) -> { throw new IllegalStateException("no luck"); });
    var motd = caller.resource("lib://motd").result().getContents(0);
    assertEquals("text/markdown # Hi lib://motd", motd.getMimeType() + " " + motd.getText() + " " + motd.getUri());
    var bytes = caller.resource("lib://bytes").result().getContents(0);
    assertEquals("application/octet-stream", bytes.getMimeType());
    assertEquals(
        "{\"at\":\"a b:c/d.txt:3\"}",
        caller.resource("lib://a%20b/c/d.txt?page=3&other=1").result().getContents(0).getText());
    for (String missing : List.of("lib://none/x", "lib://null", "lib://a/../b", "other://x")) {
      var e = assertThrows(CallStatus.class, () -> caller.resource(missing), missing);
      assertEquals("NOT_FOUND", e.status.getCode().name());
    }
    var broken = assertThrows(McpException.class, () -> caller.resource("lib://broken"));
    assertEquals("-32603 no luck", broken.code() + " " + broken.getMessage());
  }

  @Test
  void promptsAreFilledIn() {
    app.add(new Library());
    List<PromptMessage> messages =
        caller.prompt("review", Map.of("code", "x=1", "style", "old")).result().getMessagesList();
    assertEquals(List.of("user", "user", "assistant"), messages.stream().map(PromptMessage::getRole).toList());
    assertEquals("In old style?", messages.get(2).getContent().getText().getText());
    var e = assertThrows(CallStatus.class, () -> caller.prompt("review", Map.of()));
    assertEquals("prompt \"review\" needs code", e.getMessage());
    assertEquals(List.of("ab!", "?"), caller.completePrompt("review", "style", "ab"));
    assertEquals(List.of(), caller.completePrompt("review", "code", "ab"));
    app.prompt("many").argument("a", "").handle((args, ctx) -> args.get("a"));
    app.completePrompt("many", "a", (typed, others) -> IntStream.range(0, 250).mapToObj(i -> typed + i).toList());
    assertEquals(100, caller.completePrompt("many", "a", "x").size());
    assertEquals("v", caller.prompt("many", Map.of("a", "v")).result().getMessages(0).getContent().getText().getText());
    var acme = CompletionReference.newBuilder().setRaw("{\"type\":\"ref/acme\"}").build();
    for (var reference : List.of(acme, CompletionReference.getDefaultInstance())) {
      var unknown = CompleteRequest.newBuilder().setReference(reference).build();
      assertEquals(
          Status.Code.INVALID_ARGUMENT, assertThrows(CallStatus.class, () -> app.complete(unknown)).status.getCode());
    }
  }

  static final class Books {
    @ResourceTemplate(uriTemplate = "lib://{book}", name = "books")
    public String book(String book) {
      return book;
    }

    @CompleteResourceTemplate("books")
    public List<String> titles(String book) {
      return List.of();
    }
  }

  @Test
  void completionsOfUnknownReferencesAreRejected() {
    app.add(new Library(), new Books()).completePrompt("review", "cod", (typed, others) -> List.of());
    app.completePrompt("reviews", "code", (typed, others) -> List.of());
    var e = assertThrows(DefinitionException.class, app::check);
    assertEquals(
        List.of(
            "there is no resource template \"books\", which this completes; write its URI template,"
                + " \"lib://{book}\", and not its name",
            "prompt \"review\" has no \"cod\", which this completes",
            "there is no prompt \"reviews\", which this completes; did you mean \"review\"?"),
        e.getMessage().lines().map(line -> line.replaceFirst("^CallTest\\.java:\\d+: ", "")).toList());
  }

  enum Colour {
    RED,
    @JsonProperty("light blue")
    BLUE
  }

  static final class Choices {
    @ResourceTemplate(uriTemplate = "colour://{colour}")
    public String colour(Colour colour) {
      return colour.name();
    }

    @Prompt
    public String paint(Optional<Colour> colour, int coats) {
      return colour + " " + coats;
    }
  }

  @Test
  void textIsConvertedToTheTypeOfItsParameter() {
    app.add(new Choices());
    assertEquals(List.of("RED", "light blue"), caller.completePrompt("paint", "colour", ""));
    assertEquals(List.of("light blue"), caller.completeResourceTemplate("colour://{colour}", "colour", "L", Map.of()));
    assertEquals(List.of(), caller.completePrompt("paint", "coats", ""));
    assertEquals("BLUE", caller.resource("colour://light%20blue").result().getContents(0).getText());
    for (var wrong :
        Map.of(
                Map.of("coats", "1", "colour", "green"),
                    "prompt paint: colour: expected one of RED, light blue, got \"green\"",
                Map.of("coats", "two"), "prompt paint: coats: expected int, got \"two\"",
                Map.of("coats", "1", "color", "RED"),
                    "prompt \"paint\" has no argument \"color\"; did you mean colour?")
            .entrySet()) {
      assertEquals(
          wrong.getValue(),
          assertThrows(RuntimeException.class, () -> caller.prompt("paint", wrong.getKey())).getMessage());
    }
  }

  @Test
  void imagesComeFromFiles(@TempDir Path dir) throws IOException {
    Path file = dir.resolve("a.gif");
    Files.write(file, new byte[] {1, 2});
    assertEquals("image/gif", Image.file(file).mimeType());
  }
}
