package dev.mcpbridge;

import static java.util.Map.entry;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.testing.Client;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.Capability;
import dev.mcpbridge.v1.ClientCapabilities;
import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.CreateMessageRequest;
import dev.mcpbridge.v1.CreateMessageResult;
import dev.mcpbridge.v1.InputRequest;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.SamplingCapability;
import dev.mcpbridge.v1.TextContent;
import dev.mcpbridge.v1.ToolUseContent;
import dev.mcpbridge.v1.VerifiedCaller;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import tools.jackson.databind.JsonNode;

/** The code of the README, from "Choices with titles" to "Lists that change", unchanged. */
class GuideTest {
  /** A program of it. */
  public static final class Guide {
    private final App app;

    Guide(App app) {
      this.app = app;
    }

    public enum Seat { @Title("Window") WINDOW, @Title("Aisle") AISLE }

    public enum Extra { LUNCH, WIFI }

    public record Comfort(Seat seat, List<Extra> extras) {}

    @Tool(description = "Choose how to travel")
    public String comfort(Context ctx) {
      var wish = ctx.elicit("How do you travel?", Comfort.class).data();
      var line = ctx.elicit("Which line?", Choice.of(entry("ic", "InterCity"), entry("rj", "Railjet"))).data();
      var via =
          ctx.elicit("Through which cities?", Choice.listOf(entry("bz", "Bolzano"), entry("in", "Innsbruck"))).data();
      return wish.seat() + " " + wish.extras() + " " + line + " " + via;
    }

    @Tool(description = "How warm it is in a city")
    public int degrees(String city) {
      return Map.of("rome", 30, "oslo", 12).get(city);
    }

    public record Place(String city) {}

    @Tool(description = "Ask the client's model, which may call degrees")
    public String advise(String question, Context ctx) {
      var request = CreateMessageRequest.newBuilder().addAllTools(ctx.tools("degrees")).setMaxTokens(500);
      request.addMessages(Message.user(question).sampling());
      for (int i = 0; i < 5; i++) {
        Sample answer = ctx.sample(request.build());
        if (answer.toolCalls().isEmpty()) {
          return answer.text();
        }
        var results =
            answer.toolCalls().stream()
                .map(call -> Sample.toolResult(call, degrees(Sample.input(call, Place.class).city())));
        request.addMessages(answer.turn()).addMessages(Message.user(results.toArray()).sampling());
      }
      return "That takes too long.";
    }

    @Tool(description = "Ask the client's model for one word")
    public String word(Context ctx) {
      var turn = Map.of("role", "user", "content", Map.of("type", "text", "text", "Say one word."));
      var tool = Map.of("name", "dictionary", "inputSchema", Map.of("type", "object"));
      var none = Map.of("mode", "none");
      return ctx.sample(Map.of("messages", List.of(turn), "maxTokens", 9, "tools", List.of(tool), "toolChoice", none))
          .text();
    }

    @Tool(description = "Write the report of a year", task = Task.OPTIONAL)
    public String report(int year, Context ctx) {
      String format = ctx.elicit("In which format?", Choice.of(entry("pdf", "PDF"), entry("html", "HTML"))).data();
      for (int month = 1; month <= 12; month++) {
        ctx.progress(month, 12, "reading month " + month);
      }
      return year + "." + format;
    }

    @Tool(description = "How warm it is in each city", ui = "ui://guide/chart")
    public Map<String, Integer> temperatures() {
      return Map.of("rome", 30, "oslo", 12);
    }

    @Resource(uri = "ui://guide/chart", description = "The chart of the temperatures")
    public String chart() {
      return "<!doctype html><title>Temperatures</title>";
    }

    @Tool(description = "Add or remove the tool calibrate_all")
    public void expert(boolean on) {
      if (on) {
        app.tool("calibrate_all").description("Calibrate all stations").handle((none, ctx) -> "calibrated");
      } else {
        app.removeTool("calibrate_all");
      }
    }

    @Tool(description = "Which seat")
    public String seat(Seat seat, List<Seat> others) {
      return seat + " " + others;
    }

    public static void main(String[] args) {
      guide().run(args);
    }
  }

  private static App guide() {
    App app = Bridge.app("guide", "1");
    return app.add(new Guide(app));
  }

  private static String normal(String code) {
    return code.replaceAll("\\s+", " ").strip();
  }

  @Test
  void theCodeOfTheReadmeIsThatOfThisTest() throws IOException {
    String readme = Files.readString(Path.of("README.md"));
    String here = normal(Files.readString(Path.of("src", "test", "java", "dev", "mcpbridge", "GuideTest.java")));
    String sections = readme.substring(readme.indexOf("## Choices with titles"), readme.indexOf("## Tests"));
    var blocks =
        Arrays.stream(sections.split("```java"))
            .skip(1)
            .map(block -> normal(block.substring(0, block.indexOf("```"))))
            .toList();
    assertEquals(6, blocks.size());
    blocks.forEach(block -> assertTrue(here.contains(block), block));
  }

  private static JsonNode properties(InputRequest asked) {
    return Json.parse(asked.getElicit().getForm().getRequestedSchema()).get("properties");
  }

  private static JsonNode json(String text) {
    return Json.MAPPER.readTree(text.replace('\'', '"'));
  }

  @Test
  void choicesHaveTitles() {
    Map<String, Object> comfort = Map.of("seat", "AISLE", "extras", List.of("WIFI"));
    var called = new Caller(guide()).answers(comfort, "rj", List.of("bz", "in")).tool("comfort");
    assertEquals("AISLE [WIFI] rj [bz, in]", called.text());
    List<JsonNode> asked = called.asked().stream().map(GuideTest::properties).toList();
    assertEquals(
        json("{'type':'string','oneOf':[{'const':'WINDOW','title':'Window'},{'const':'AISLE','title':'Aisle'}]}"),
        asked.get(0).get("seat"));
    assertEquals(
        json("{'type':'array','items':{'type':'string','enum':['LUNCH','WIFI']}}"), asked.get(0).get("extras"));
    assertEquals(
        json(
            "{'value':{'type':'string','oneOf':[{'const':'ic','title':'InterCity'},"
                + "{'const':'rj','title':'Railjet'}]}}"),
        asked.get(1));
    assertEquals(
        json(
            "{'value':{'type':'array','items':{'anyOf':[{'const':'bz','title':'Bolzano'},"
                + "{'const':'in','title':'Innsbruck'}]}}}"),
        asked.get(2));
  }

  record Seats(List<Guide.Seat> seats) {}

  @Test
  void invalidChoicesAreRejectedOnOneLine() {
    App app = guide();
    String wrong = new Caller(app).answers(Map.of("seat", "Aisle", "extras", List.of())).tool("comfort").text();
    assertEquals(
        "the answer violates the schema of the form:\n"
            + "- seat: does not have a value in the enumeration [\"WINDOW\", \"AISLE\"], got \"Aisle\"",
        wrong);
    Map<String, String> lines = new LinkedHashMap<>();
    lines.put("b", "Second");
    lines.put("a", "First");
    app.tool("dynamic").handle((none, ctx) -> ctx.elicit("Which?", Choice.listOf(lines.entrySet())).data());
    assertEquals(
        "the answer violates the schema of the form:\n"
            + "- value.0: does not have a value in the enumeration [\"b\", \"a\"], got \"c\"",
        new Caller(app).answers(List.of("c")).tool("dynamic").text());
    app.tool("none").handle((none, ctx) -> ctx.elicit("Which?", Choice.of(List.of())).data());
    assertEquals("there is nothing to choose from", new Caller(app).tool("none").text());

    // Fields and arguments with several choices.
    app.tool("seats").handle((none, ctx) -> ctx.elicit("Which?", Seats.class).data().seats().toString());
    var seats = new Caller(app).answers(Map.of("seats", List.of("AISLE"))).tool("seats");
    assertEquals("[AISLE]", seats.text());
    assertEquals(
        json(
            "{'seats':{'type':'array','items':{'anyOf':[{'const':'WINDOW','title':'Window'},"
                + "{'const':'AISLE','title':'Aisle'}]}}}"),
        properties(seats.asked().get(0)));
    assertEquals(
        "AISLE [WINDOW]", new Caller(app).tool("seat", Map.of("seat", "AISLE", "others", List.of("WINDOW"))).text());
    String refused = new Caller(app).tool("seat", Map.of("seat", "x", "others", List.of())).text();
    assertTrue(
        refused.contains("- seat: does not have a value in the enumeration [\"WINDOW\", \"AISLE\"], got \"x\""),
        refused);
    assertTrue(refused.contains("seat(seat: \"WINDOW\" | \"AISLE\", others: (\"WINDOW\" | \"AISLE\")[])"), refused);
  }

  /** A caller whose model can be given tools. */
  private static Caller caller(Object... answers) {
    var context = Caller.EVERYTHING.toBuilder();
    context.getClientCapabilitiesBuilder().getSamplingBuilder().setTools(Capability.getDefaultInstance());
    return new Caller(guide()).context(context.build()).answers(answers);
  }

  private static InputResponse message(ContentBlock.Builder... blocks) {
    var result = CreateMessageResult.newBuilder().setRole("assistant");
    Arrays.stream(blocks).forEach(result::addContent);
    return InputResponse.newBuilder().setCreateMessage(result).build();
  }

  private static ContentBlock.Builder toolUse(String id, String city) {
    var call = ToolUseContent.newBuilder().setId(id).setName("degrees").setInput("{\"city\":\"" + city + "\"}");
    return ContentBlock.newBuilder().setToolUse(call);
  }

  /** A caller whose model has no tools. */
  private static final CallContext WITHOUT_TOOLS =
      CallContext.newBuilder()
          .setVerified(VerifiedCaller.newBuilder().setProtocolVersion("2026-07-28"))
          .setClientCapabilities(ClientCapabilities.newBuilder().setSampling(SamplingCapability.getDefaultInstance()))
          .build();

  @Test
  void theModelCallsTools() {
    var warm = ContentBlock.newBuilder().setText(TextContent.newBuilder().setText("Go to Rome."));
    var called =
        caller(message(toolUse("1", "rome"), toolUse("2", "oslo")), message(warm))
            .tool("advise", Map.of("question", "Where?"));
    assertEquals("Go to Rome.", called.text());
    var last = called.asked().get(1).getCreateMessage();
    assertEquals("degrees", last.getTools(0).getName());
    assertEquals(List.of("user", "assistant", "user"), last.getMessagesList().stream().map(m -> m.getRole()).toList());
    var results = last.getMessages(2).getContentList().stream().map(ContentBlock::getToolResult).toList();
    assertEquals(
        List.of("1 30 {\"result\":30} false", "2 12 {\"result\":12} false"),
        results.stream()
            .map(
                r ->
                    r.getToolUseId()
                        + " "
                        + r.getContent(0).getText().getText()
                        + " "
                        + r.getStructuredContent()
                        + " "
                        + r.getIsError())
            .toList());
    assertEquals(
        "This client does not give its model tools. Answer this yourself and go on without the tool.",
        new Caller(guide()).context(WITHOUT_TOOLS).tool("advise", Map.of("question", "Where?")).text());
    var failed = Sample.toolFailure(toolUse("3", "x").getToolUse(), "there is no x");
    assertEquals(
        "3 true there is no x",
        failed.getToolUseId() + " " + failed.getIsError() + " " + failed.getContent(0).getText().getText());
    App app = Bridge.app("t", "1");
    app.tool("other").handle((none, ctx) -> ctx.tools("othr"));
    assertEquals("there is no tool \"othr\"; did you mean \"other\"?", new Caller(app).tool("other").text());
  }

  @Test
  void aRequestMayHaveTheFormatOfMcp() {
    var called = caller("Yes").tool("word");
    assertEquals("Yes", called.text());
    assertEquals(
        "{\"method\":\"sampling/createMessage\",\"params\":{\"maxTokens\":9,"
            + "\"messages\":[{\"content\":{\"text\":\"Say one word.\",\"type\":\"text\"},\"role\":\"user\"}],"
            + "\"toolChoice\":{\"mode\":\"none\"},"
            + "\"tools\":[{\"inputSchema\":{\"type\":\"object\"},\"name\":\"dictionary\"}]}}",
        called.asked().get(0).getRaw());
    assertEquals(
        "This client does not give its model tools. Answer this yourself and go on without the tool.",
        new Caller(guide()).context(WITHOUT_TOOLS).tool("word").text());
  }

  @Test
  void additionsAndRemovalsAreNotified() throws Exception {
    try (Client client = Client.start(Guide.class)) {
      client.call("expert", Map.of("on", true));
      client.awaitNotification("notifications/tools/list_changed");
      assertEquals("calibrated", client.call("calibrate_all", Map.of()).text());
      client.call("expert", Map.of("on", false));
      client.awaitNotification("notifications/tools/list_changed");
      assertThrows(Client.RpcException.class, () -> client.call("calibrate_all", Map.of()));
    }
  }
}
