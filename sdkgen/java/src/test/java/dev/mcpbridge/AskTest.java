package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.CreateMessageResult;
import dev.mcpbridge.v1.ElicitResult;
import dev.mcpbridge.v1.InputError;
import dev.mcpbridge.v1.InputRequired;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.ListRootsResult;
import dev.mcpbridge.v1.Root;
import dev.mcpbridge.v1.TextContent;
import jakarta.validation.constraints.Max;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;

/** Questions: rounds, answers, and the values that are kept between rounds. */
class AskTest {
  enum Shade {
    RED,
    GREEN
  }

  record Colour(Shade shade) {}

  record Confirm(@ToolArg(description = "Really?") boolean sure) {}

  record Limited(@Max(9) int n) {}

  record Nested(Colour colour) {}

  private final App app = Bridge.app("test", "1");

  private Caller caller(Object... answers) {
    return new Caller(app).answers(answers);
  }

  private void tool(String name, Handler<Object, ?> handler) {
    app.tool(name).handle(handler);
  }

  @Test
  void aQuestionEndsTheRoundAndItsAnswerReturns() {
    List<String> rounds = new ArrayList<>();
    tool(
        "paint",
        (in, ctx) -> {
          rounds.add("round");
          try {
            return ctx.elicit("Which colour?", Colour.class).data().shade();
          } catch (Exception e) {
            return "swallowed";
          }
        });
    var called = caller(new Colour(Shade.RED)).tool("paint");
    assertEquals("\"RED\"", called.text());
    assertEquals(2, rounds.size());
    var form = called.asked().get(0).getElicit().getForm();
    assertEquals("Which colour?", form.getMessage());
    assertEquals(
        "{\"type\":\"object\",\"properties\":{\"shade\":{\"type\":\"string\",\"enum\":[\"RED\",\"GREEN\"]}},"
            + "\"required\":[\"shade\"]}",
        form.getRequestedSchema());
  }

  @Test
  void evenIfTheToolCatchesEverything() {
    tool(
        "greedy",
        (in, ctx) -> {
          try {
            return ctx.elicit("Name?", String.class).data();
          } catch (Throwable e) {
            return "swallowed";
          }
        });
    assertEquals("Ada", caller("Ada").tool("greedy").text());
    tool(
        "exact",
        (in, ctx) -> {
          try {
            return ctx.elicit("Name?", String.class).data();
          } catch (RoundEnd e) {
            throw new McpException(-1, "instead");
          }
        });
    assertEquals("Ada", caller("Ada").tool("exact").text());
  }

  @Test
  void manyRoundsAndOnce() {
    List<Integer> charged = new ArrayList<>();
    record Receipt(int size, List<Integer> list) {}
    tool(
        "order",
        (in, ctx) -> {
          int size = ctx.elicit("Size?", Integer.class).data();
          Receipt receipt =
              ctx.once(
                  "charge",
                  Receipt.class,
                  () -> {
                    charged.add(size);
                    return new Receipt(size, List.of(1));
                  });
          ctx.once("note", () -> charged.add(-1));
          String name = ctx.elicit("Name?", String.class).data();
          String again = ctx.elicit("Name?", String.class).data();
          return receipt + " " + name + " " + again;
        });
    var called = caller(7, "Ada", "Bob").tool("order");
    assertEquals("Receipt[size=7, list=[1]] Ada Bob", called.text());
    assertEquals(List.of(7, -1), charged);
    assertEquals(4, called.rounds());
  }

  @Test
  void repeatedEventsAreLoggedOnce() {
    interface Step {
      void run(Context ctx);
    }
    record Case(String name, boolean warns, List<Step> steps) {}
    Step ask = ctx -> ctx.elicit("Sure?", Boolean.class).data();
    Step report = ctx -> ctx.progress(1, null, null);
    Step write = ctx -> ctx.log().info("begun");
    Step reportOnce = ctx -> ctx.once("report", () -> report.run(ctx));
    List<Case> cases =
        List.of(
            new Case("progress-before", true, List.of(report, ask)),
            new Case("log-before", true, List.of(write, ask)),
            new Case("progress-between", true, List.of(ask, report, ask)),
            new Case("progress-after", false, List.of(ask, report)),
            new Case("progress-once", false, List.of(reportOnce, ask)),
            new Case("no-question", false, List.of(report, write)));
    List<String> warnings = new ArrayList<>();
    Logger logger = Logger.getLogger("mcpbridge");
    logger.setFilter(record -> warnings.add(record.getMessage()));
    try {
      for (Case c : cases) {
        tool(
            c.name,
            (in, ctx) -> {
              c.steps.forEach(step -> step.run(ctx));
              return "done";
            });
        warnings.clear();
        for (int i = 0; i < 2; i++) {
          assertEquals("done", caller(true, true).tool(c.name).text());
        }
        assertEquals(c.warns ? 1 : 0, warnings.size(), c.name + ": " + warnings);
        if (c.warns) {
          assertTrue(
              warnings
                  .get(0)
                  .contains("tool \"" + c.name + "\" sends progress or log messages before an answered question"),
              warnings.get(0));
        }
      }
    } finally {
      logger.setFilter(null);
    }
  }

  @Test
  void aChangedQuestionIsAskedAnew() {
    Iterator<Integer> price = List.of(1, 2, 2).iterator();
    tool("buy", (in, ctx) -> ctx.elicit("Pay " + price.next() + "?", Confirm.class).data().sure());
    var called = caller(new Confirm(true), new Confirm(false)).tool("buy");
    assertEquals(
        List.of("Pay 1?", "Pay 2?"), called.asked().stream().map(q -> q.getElicit().getForm().getMessage()).toList());
    assertEquals("false", called.text());
  }

  @Test
  void aKeyKeepsAQuestionTheSame() {
    int[] time = {0};
    tool("now", (in, ctx) -> ctx.key("why").elicit("It is " + time[0]++ + ". Why?", String.class).data());
    var called = caller("because").tool("now");
    assertEquals("because 2", called.text() + " " + called.rounds());
  }

  @Test
  void askAllAsksInOneRound() {
    tool(
        "both",
        (in, ctx) -> {
          var all = ctx.askAll();
          var a = all.elicit("A?", String.class);
          var b = all.elicit("B?", Integer.class);
          var roots = all.roots();
          return a.data() + b.data() + roots.size();
        });
    var roots =
        InputResponse.newBuilder()
            .setListRoots(ListRootsResult.newBuilder().addRoots(Root.newBuilder().setUri("file:///a")));
    var called = caller("a", 1, roots.build()).tool("both");
    assertEquals("a11 2 3", called.text() + " " + called.rounds() + " " + called.asked().size());
  }

  @Test
  void answersAreAcceptedDeclinedOrCancelled() {
    tool(
        "ask",
        (in, ctx) -> {
          var answer = ctx.elicit("Sure?", Boolean.class);
          return answer.accepted()
              + " "
              + answer.declined()
              + " "
              + answer.cancelled()
              + " "
              + answer.yes()
              + " "
              + answer.optional();
        });
    tool("use", (in, ctx) -> ctx.elicit("Sure?", Boolean.class).data());
    assertEquals("true false false true Optional[true]", caller(true).tool("ask").text());
    assertEquals("true false false false Optional[false]", caller(false).tool("ask").text());
    assertEquals("false true false false Optional.empty", caller(Caller.DECLINE).tool("ask").text());
    assertEquals("false false true false Optional.empty", caller(Caller.CANCEL).tool("ask").text());
    var declined = caller(Caller.DECLINE).tool("use");
    assertTrue(declined.isError());
    assertEquals("the user declined: Sure?", declined.text());
  }

  @Test
  void unsupportedAndUnansweredQuestionsAreExceptions() {
    tool("form", (in, ctx) -> ctx.elicit("Number?", Limited.class).data().n());
    tool("url", (in, ctx) -> ctx.elicitUrl("Sign in", "https://example.com").accepted());
    var incapable = CallContext.getDefaultInstance();
    assertTrue(
        new Caller(app)
            .context(incapable)
            .tool("form")
            .text()
            .startsWith("This client cannot show a form to its user. Ask the user yourself"));
    assertTrue(new Caller(app).context(incapable).tool("url").text().startsWith("This client cannot open a web page"));
    assertEquals(
        "the client did not answer in time", caller(error(InputError.Reason.REASON_NO_ANSWER)).tool("form").text());
    assertEquals("the client refused to answer", caller(error(InputError.Reason.REASON_REFUSED)).tool("form").text());
    assertTrue(
        caller(error(InputError.Reason.REASON_UNSUPPORTED))
            .tool("form")
            .text()
            .startsWith("This client cannot be asked this"));
    assertEquals(
        "the answer violates the schema of the form:\n- n: must have a maximum value of 9, got 10",
        caller(new Limited(10)).tool("form").text());
    var accept = InputResponse.newBuilder().setElicit(ElicitResult.newBuilder().setAction("accept"));
    assertEquals("true", caller(accept.build()).tool("url").text());
    tool("nested", (in, ctx) -> ctx.elicit("?", Nested.class).data());
    assertTrue(caller().tool("nested").text().startsWith("a form cannot ask for \"colour\" of Nested"));
  }

  private static InputResponse error(InputError.Reason reason) {
    return InputResponse.newBuilder().setError(InputError.newBuilder().setReason(reason)).build();
  }

  record Sized(@ToolArg(defaultValue = "7") int size) {}

  @Test
  void aFormHasDefaults() {
    tool("size", (in, ctx) -> ctx.elicit("Size?", Sized.class).data().size());
    assertEquals("7", caller(Map.of()).tool("size").text());
  }

  @Test
  void aFormMayBeASchema() {
    String schema =
        "{'type':'object','properties':{'n':{'type':'integer','default':7}},'required':[]}".replace('\'', '"');
    tool("raw", (in, ctx) -> ctx.elicitJson("Which?", schema).data());
    tool("bad", (in, ctx) -> ctx.elicitJson("Which?", "[]").data());
    var called = caller(Map.of()).tool("raw");
    assertEquals("{\"n\":7}", called.text());
    assertEquals(
        Json.MAPPER.readTree(schema), Json.parse(called.asked().get(0).getElicit().getForm().getRequestedSchema()));
    assertEquals(
        "the answer violates the schema of the form:\n- n: string found, integer expected, got \"x\"",
        caller(Map.of("n", "x")).tool("raw").text());
    assertEquals("the schema of a form is a JSON object", caller().tool("bad").text());
  }

  @Test
  void samplingAndRootsHaveKeys() {
    tool("keys", (in, ctx) -> {
      var all = ctx.askAll();
      var sample = all.key("model").sample("Hi " + System.nanoTime());
      var roots = all.key("roots").roots();
      return sample.text() + " " + roots.get(0).getUri();
    });
    var called = caller("Ho", List.of("file:///a")).tool("keys");
    assertEquals("Ho file:///a 2", called.text() + " " + called.rounds());
  }

  @Test
  void anAnswerOfAnotherKindIsNone() {
    tool("form", (in, ctx) -> ctx.elicit("Name?", String.class).data());
    var roots = InputResponse.newBuilder().setListRoots(ListRootsResult.getDefaultInstance()).build();
    assertEquals("Ada", caller(roots, "Ada").tool("form").text());
  }

  @Test
  void theModelIsSampled() {
    tool("ask", (in, ctx) -> ctx.sample("Hi").text());
    var text = ContentBlock.newBuilder().setText(TextContent.newBuilder().setText("Ho"));
    var answer = InputResponse.newBuilder().setCreateMessage(CreateMessageResult.newBuilder().addContent(text)).build();
    assertEquals("Ho", caller(answer).tool("ask").text());
  }

  @Test
  @SuppressWarnings("FutureReturnValueIgnored") // It is returned.
  void anotherThreadMayAsk() {
    tool("later", (in, ctx) -> CompletableFuture.supplyAsync(() -> ctx.elicit("Name?", String.class).data()));
    assertEquals("Ada", caller("Ada").tool("later").text());
  }

  @Test
  void resourcesAndPromptsAskToo() {
    app.resource("x://a").handle((none, ctx) -> ctx.elicit("Name?", String.class).data());
    app.prompt("p").handle((args, ctx) -> ctx.elicit("Name?", String.class).data());
    assertEquals("Ada", caller("Ada").resource("x://a").result().getContents(0).getText());
    assertEquals("Bob", caller("Bob").prompt("p", Map.of()).result().getMessages(0).getContent().getText().getText());
  }

  @Test
  void theStateHasALimit() {
    tool(
        "big",
        (in, ctx) -> {
          ctx.once("small", String.class, () -> "x");
          ctx.once("huge", String.class, () -> "x".repeat(40_000));
          return ctx.elicit("Name?", String.class).data();
        });
    var called = caller().tool("big");
    assertTrue(called.isError());
    String largest = "more than the maximum of 32768; the largest part is once(\"huge\"), 40002 bytes";
    assertTrue(called.text().endsWith(largest), called.text());
  }

  @Test
  void anUnknownStateIsRejected() {
    tool("form", (in, ctx) -> ctx.elicit("Name?", String.class).data());
    Context ctx = new Context(app, null, Caller.EVERYTHING, Map.of(), ByteString.copyFromUtf8("nonsense"), null);
    assertEquals(-32602, assertThrows(McpException.class, () -> app.callTool("form", ByteString.EMPTY, ctx)).code());
  }

  @Test
  void aHandlerMayReturnInputRequests() {
    var asked = InputRequired.newBuilder().setRequestState(ByteString.copyFromUtf8("mine")).build();
    tool(
        "mine",
        (in, ctx) ->
            ctx.requestState().isPresent()
                ? ctx.requestState().get().toStringUtf8()
                    + ctx.request(CallToolRequest.class).getArguments().toStringUtf8()
                : asked);
    assertEquals("mine{}", caller().tool("mine").text());
  }
}
