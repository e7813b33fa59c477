package com.example.conformance;

import dev.mcpbridge.Answer;
import dev.mcpbridge.App;
import dev.mcpbridge.Audio;
import dev.mcpbridge.Bridge;
import dev.mcpbridge.CompletePrompt;
import dev.mcpbridge.CompleteResourceTemplate;
import dev.mcpbridge.Context;
import dev.mcpbridge.Embedded;
import dev.mcpbridge.Image;
import dev.mcpbridge.Log;
import dev.mcpbridge.McpException;
import dev.mcpbridge.Message;
import dev.mcpbridge.Progress;
import dev.mcpbridge.Prompt;
import dev.mcpbridge.PromptArg;
import dev.mcpbridge.Resource;
import dev.mcpbridge.ResourceTemplate;
import dev.mcpbridge.Task;
import dev.mcpbridge.Tool;
import dev.mcpbridge.ToolArg;
import dev.mcpbridge.ToolException;
import dev.mcpbridge.v1.CreateMessageRequest;
import dev.mcpbridge.v1.Root;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.databind.node.ObjectNode;

/**
 * The backend for the official MCP conformance suite: its tools, prompts and resources, with its names.
 *
 * <p>It returns the same as examples/conformance-go. The bridge implements the rest of the suite's requirements:
 * sessions, headers, sealed state and capability checks.
 */
public final class Conformance {
  /** The duration of a step of a slow tool, in milliseconds. */
  private static final long STEP = 50;

  private static final String WATCHED = "test://watched-resource";

  private static final byte[] RED_PIXEL =
      Base64.getDecoder()
          .decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==");

  private final App app;
  private boolean tool; // Whether the transient tool exists. Guarded by this.
  private boolean prompt;
  private int changes;

  private Conformance(App app) {
    this.app = app;
  }

  public static void main(String[] args) {
    App app =
        Bridge.app("conformance-java", "1")
            .instructions("Answers the official MCP conformance suite.")
            .cacheTtl(Duration.ZERO)
            .cacheScope("public");
    app.add(new Conformance(app));
    // Their schemas have keywords that no class can express.
    app.tool("test_x_mcp_header")
        .description("Takes an argument that is also sent as a header.")
        .inputSchema(
            "{\"type\":\"object\",\"properties\":{\"region\":{\"type\":\"string\",\"x-mcp-header\":\"Region\"}}}")
        .handle((arguments, ctx) -> arguments.toString());
    app.tool("json_schema_2020_12_tool")
        .description("Tool with JSON Schema 2020-12 features.")
        .inputSchema(FULL_SCHEMA)
        .handle((arguments, ctx) -> arguments.toString());
    app.run(args);
  }

  /** 10 ms of silence as WAV: 8000 samples of 8 bits per second, each 128. */
  private static byte[] silence() {
    int rate = 8000;
    int samples = 80;
    ByteBuffer out = ByteBuffer.allocate(44 + samples).order(ByteOrder.LITTLE_ENDIAN);
    out.put("RIFF".getBytes(StandardCharsets.US_ASCII)).putInt(36 + samples);
    out.put("WAVEfmt ".getBytes(StandardCharsets.US_ASCII)).putInt(16);
    out.putShort((short) 1).putShort((short) 1).putInt(rate).putInt(rate).putShort((short) 1).putShort((short) 8);
    out.put("data".getBytes(StandardCharsets.US_ASCII)).putInt(samples);
    Arrays.fill(out.array(), 44, 44 + samples, (byte) 128);
    return out.array();
  }

  /** Returns the action of the user and the content of the form. */
  private static String outcome(Answer<ObjectNode> answer) {
    String action = answer.accepted() ? "accept" : answer.declined() ? "decline" : "cancel";
    return "action=" + action + ", content=" + answer.optional().map(ObjectNode::toString).orElse("{}");
  }

  private static CreateMessageRequest model(String prompt, int maxTokens) {
    return CreateMessageRequest.newBuilder()
        .addMessages(Message.user(prompt).sampling())
        .setMaxTokens(maxTokens)
        .build();
  }

  private static String uris(List<Root> roots) {
    return roots.stream().map(Root::getUri).collect(Collectors.joining(", "));
  }

  // Tools.

  @Tool(name = "test_simple_text", description = "Returns text.")
  public String simpleText() {
    return "This is a simple text response for testing.";
  }

  @Tool(name = "test_image_content", description = "Returns an image.")
  public Image image() {
    return new Image(RED_PIXEL);
  }

  @Tool(name = "test_audio_content", description = "Returns a sound.")
  public Audio audio() {
    return new Audio(silence(), "audio/wav");
  }

  @Tool(name = "test_embedded_resource", description = "Returns an embedded resource.")
  public Embedded embedded() {
    return new Embedded("test://embedded-resource", "This is an embedded resource content.");
  }

  @Tool(name = "test_multiple_content_types", description = "Returns text, an image and a resource.")
  public List<Object> multiple() {
    String json = "{\"test\":\"data\",\"value\":123}";
    return List.of(
        "Multiple content types test:",
        image(),
        new Embedded("test://mixed-content-resource", json, "application/json"));
  }

  @Tool(name = "test_error_handling", description = "Always fails.")
  public String fails() {
    throw new ToolException("This tool intentionally returns an error for testing");
  }

  @Tool(name = "test_tool_with_logging", description = "Logs three lines.")
  public String logs(Log log) throws InterruptedException {
    Log named = log.named("conformance");
    named.info("Tool execution started");
    Thread.sleep(STEP);
    named.info("Tool processing data");
    Thread.sleep(STEP);
    named.info("Tool execution completed");
    return "Tool with logging executed successfully";
  }

  @Tool(name = "test_tool_with_progress", description = "Reports progress three times.")
  public String progresses(Progress progress) throws InterruptedException {
    progress.progress(0, 100);
    Thread.sleep(STEP);
    progress.progress(50, 100);
    Thread.sleep(STEP);
    progress.progress(100, 100);
    return "Tool with progress executed successfully";
  }

  @Tool(name = "test_reconnection", description = "Runs long enough for its stream to be closed and resumed.")
  public String reconnection(Log log) throws InterruptedException {
    log.named("conformance").info("The stream may be closed now.");
    Thread.sleep(10 * STEP); // The bridge decides whether to close the stream.
    return "Reconnection test completed";
  }

  /** A schema with every kind of keyword that the bridge must leave unchanged. */
  private static final String FULL_SCHEMA =
      """
      {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {
          "$anchor": "addressDef",
          "type": "object",
          "properties": {"street": {"type": "string"}, "city": {"type": "string"}}
        }},
        "properties": {
          "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
          "contactMethod": {"type": "string", "enum": ["phone", "email"]},
          "phone": {"type": "string"}, "email": {"type": "string"}
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false
      }
      """;

  // Tools that ask.

  private static final String ADDRESS =
      """
      {"type":"object","properties":{
        "username":{"type":"string","description":"User's response"},
        "email":{"type":"string","description":"User's email address"}
      },"required":["username","email"]}
      """;

  private static final String ENUMS =
      """
      {"type":"object","properties":{
        "untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
        "titledSingle":{"type":"string","oneOf":[
          {"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},
          {"const":"value3","title":"Third Option"}]},
        "legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],
          "enumNames":["Option One","Option Two","Option Three"]},
        "untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
        "titledMulti":{"type":"array","items":{"anyOf":[
          {"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},
          {"const":"value3","title":"Third Choice"}]}}
      },"required":[]}
      """;

  private static final String DEFAULTS =
      """
      {"type":"object","properties":{
        "name":{"type":"string","description":"User name","default":"John Doe"},
        "age":{"type":"integer","description":"User age","default":30},
        "score":{"type":"number","description":"User score","default":95.5},
        "status":{"type":"string","description":"User status","enum":["active","inactive","pending"],
          "default":"active"},
        "verified":{"type":"boolean","description":"Verification status","default":true}
      },"required":[]}
      """;

  /** An open form: the suite answers with a further member. */
  private static final String NAME =
      """
      {"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}
      """;

  private record Name(String name) {}

  private record Color(String color) {}

  private record Confirm(boolean ok) {}

  private record UserContext(String context) {}

  @Tool(name = "test_sampling", description = "Asks the model.")
  public String sampling(@ToolArg(description = "What to ask the model") String prompt, Context ctx) {
    return "LLM response: " + ctx.key("model").sample(model(prompt, 100)).text();
  }

  @Tool(name = "test_elicitation", description = "Asks the user for a name and an address.")
  public String elicitation(@ToolArg(description = "What to ask the user") String message, Context ctx) {
    return "User response: <" + outcome(ctx.key("user").elicitJson(message, ADDRESS)) + ">";
  }

  @Tool(name = "test_elicitation_sep1034_defaults", description = "Asks the user with a form that has defaults.")
  public String defaults(Context ctx) {
    return "Elicitation completed: " + outcome(ctx.key("form").elicitJson("Please fill in this form", DEFAULTS));
  }

  @Tool(name = "test_elicitation_sep1330_enums", description = "Asks the user with a form that has choices.")
  public String enums(Context ctx) {
    return "Elicitation completed: " + outcome(ctx.key("form").elicitJson("Please fill in this form", ENUMS));
  }

  @Tool(name = "test_input_required_result_elicitation", description = "Asks the user for a name and greets.")
  public String greet(Context ctx) {
    return "Hello, " + ctx.key("user_name").elicit("What is your name?", Name.class).data().name() + "!";
  }

  @Tool(name = "test_input_required_result_sampling", description = "Asks the model for a capital.")
  public String capital(Context ctx) {
    return "The model says: " + ctx.key("capital_question").sample(model("What is the capital of France?", 100)).text();
  }

  @Tool(name = "test_input_required_result_list_roots", description = "Asks for the client's folders.")
  public String folders(Context ctx) {
    return "The client works in: " + uris(ctx.key("client_roots").roots());
  }

  /** The bridge rejects changed request state, so the answer is always that of the user. */
  private static String confirm(Context ctx) {
    var answer = ctx.key("confirm").elicit("Please confirm", Confirm.class);
    return "state-ok: " + (answer.accepted() ? "accept" : "not accepted");
  }

  @Tool(
      name = "test_input_required_result_request_state",
      description = "Asks for a confirmation, with request state.")
  public String state(Context ctx) {
    return confirm(ctx);
  }

  @Tool(
      name = "test_input_required_result_tampered_state",
      description = "Asks for a confirmation, with unchanged request state.")
  public String tamperedState(Context ctx) {
    return confirm(ctx);
  }

  @Tool(
      name = "test_input_required_result_multiple_inputs",
      description = "Makes three input requests at once.")
  public String askAll(Context ctx) {
    var all = ctx.askAll();
    var name = all.key("user_name").elicit("What is your name?", Name.class);
    var greeting = all.key("greeting").sample(model("Generate a greeting", 50));
    var roots = all.key("client_roots").roots();
    return greeting.text() + " " + name.data().name() + ", you work in " + uris(roots);
  }

  @Tool(name = "test_input_required_result_multi_round", description = "Asks the user twice, one after the other.")
  public String askTwice(Context ctx) {
    var name = ctx.key("step1").elicit("Step 1: What is your name?", Name.class);
    var color = ctx.key("step2").elicit("Step 2: What is your favorite color?", Color.class);
    return name.data().name() + " likes " + color.data().color();
  }

  @Tool(name = "test_input_required_result_capabilities", description = "Asks only what the client can answer.")
  public String askPossible(Context ctx) {
    var can = ctx.clientCapabilities();
    var all = ctx.askAll();
    List<Runnable> looks = new ArrayList<>();
    if (can.hasElicitation()) {
      looks.add(all.key("user_name").elicit("What is your name?", Name.class)::accepted);
    }
    if (can.hasSampling()) {
      looks.add(all.key("capital_question").sample(model("What is the capital of France?", 100))::text);
    }
    if (can.hasRoots()) {
      looks.add(all.key("client_roots").roots()::size);
    }
    looks.forEach(Runnable::run);
    return "The client answered " + looks.size() + " questions.";
  }

  @Tool(name = "test_missing_capability", description = "Needs a client with sampling.")
  public String missingCapability(Context ctx) {
    // Without this check, ctx.sample would throw UnsupportedException.
    if (!ctx.clientCapabilities().hasSampling()) {
      throw new McpException(
          -32021,
          "this tool needs a client with sampling",
          Map.of("requiredCapabilities", Map.of("sampling", Map.of())));
    }
    return "The client can sample.";
  }

  @Tool(name = "test_streaming_elicitation", description = "Asks for a confirmation.")
  public String streaming(Context ctx) {
    var answer = ctx.key("confirm").elicit("Please fill in this form", Confirm.class);
    return "Elicitation completed: " + (answer.accepted() ? "accept" : "not accepted");
  }

  @Tool(name = "test_logging_tool", description = "Logs a line.")
  public String logsOne(Log log) {
    log.named("conformance").info("Only clients that set a log level receive this line.");
    return "Logged.";
  }

  @Tool(name = "test_trigger_tool_change", description = "Changes the list of tools.")
  public synchronized String changeTools() {
    String name = "test_transient_tool";
    tool = !tool;
    if (tool) {
      app.tool(name).description("Added and removed by a tool.").handle((arguments, ctx) -> "I am here.");
    } else {
      app.removeTool(name);
    }
    changed();
    return "The list of tools has changed.";
  }

  @Tool(name = "test_trigger_prompt_change", description = "Changes the list of prompts.")
  public synchronized String changePrompts() {
    String name = "test_transient_prompt";
    prompt = !prompt;
    if (prompt) {
      app.prompt(name).description("Added and removed by a tool.").handle((arguments, ctx) -> "I am here.");
    } else {
      app.removePrompt(name);
    }
    changed();
    return "The list of prompts has changed.";
  }

  private synchronized void changed() {
    changes++;
    app.notifyUpdated(WATCHED);
  }

  // Tools whose calls can be tasks, which the bridge keeps.

  private record Deletion(boolean confirm) {}

  @Tool(name = "greet", description = "Greets.")
  public String greetByName(String name) {
    return "Hello, " + name + "!";
  }

  @Tool(name = "slow_compute", description = "Computes for some seconds.", task = Task.OPTIONAL)
  public String slowCompute(double seconds, Optional<String> label) throws InterruptedException {
    Thread.sleep((long) (seconds * 1000));
    return label.orElse("") + ": computed for " + seconds + " s";
  }

  @Tool(name = "failing_job", description = "Fails, after a while.", task = Task.REQUIRED)
  public String failingJob() throws InterruptedException {
    Thread.sleep(STEP);
    throw new ToolException("This job always fails");
  }

  @Tool(name = "protocol_error_job", description = "Ends with a JSON-RPC error, after a while.", task = Task.OPTIONAL)
  public String protocolErrorJob() throws InterruptedException {
    Thread.sleep(STEP);
    throw new McpException(-32603, "this job always ends with a JSON-RPC error");
  }

  @Tool(name = "confirm_delete", description = "Asks the user whether to delete a file.", task = Task.OPTIONAL)
  public String confirmDelete(String filename, Context ctx) {
    return filename + ": " + ctx.key("confirm").elicit("Delete " + filename + "?", Deletion.class).data().confirm();
  }

  @Tool(name = "multi_input", description = "Asks the user for two names at once.", task = Task.OPTIONAL)
  public String multiInput(Context ctx) {
    var all = ctx.askAll();
    var first = all.key("first").elicitJson("The first name?", NAME);
    var second = all.key("second").elicitJson("The second name?", NAME);
    return outcome(first) + " and " + outcome(second);
  }

  @Tool(
      name = "test_tool_with_task",
      description = "Asks the user for a name, and greets as a task.",
      task = Task.REQUIRED,
      startsLater = true)
  public String taskAfterInput(Context ctx) throws InterruptedException {
    String name = ctx.key("user_name").elicit("What is your name?", Name.class).data().name();
    ctx.startTask();
    Thread.sleep(STEP);
    return "Hello, " + name + "!";
  }

  // Prompts.

  @Prompt(name = "test_simple_prompt", description = "A prompt without arguments.")
  public String simplePrompt() {
    return "This is a simple prompt for testing.";
  }

  @Prompt(name = "test_prompt_with_arguments", description = "A prompt with two arguments.")
  public String promptWithArguments(
      @PromptArg(description = "First test argument") String arg1,
      @PromptArg(description = "Second test argument") String arg2) {
    return "Prompt with arguments: arg1='" + arg1 + "', arg2='" + arg2 + "'";
  }

  private static List<String> starting(String typed, String... values) {
    return Stream.of(values).filter(value -> value.startsWith(typed)).toList();
  }

  @CompletePrompt("test_prompt_with_arguments")
  public List<String> completeArg1(String arg1) {
    return starting(arg1, "paris", "park", "party", "test-value-1", "test-value-2");
  }

  @CompletePrompt("test_prompt_with_arguments")
  public List<String> completeArg2(String arg2) {
    return starting(arg2, "test-value-a", "test-value-b");
  }

  @Prompt(name = "test_prompt_with_embedded_resource", description = "A prompt that holds a resource.")
  public List<Object> promptWithResource(@PromptArg(description = "URI of the resource to embed") String resourceUri) {
    return List.of(
        new Embedded(resourceUri, "Embedded resource content for testing."),
        "Please process the embedded resource above.");
  }

  @Prompt(name = "test_prompt_with_image", description = "A prompt that holds an image.")
  public Message promptWithImage() {
    return Message.user(image(), "Please analyze the image above.");
  }

  @Prompt(name = "test_input_required_result_prompt", description = "A prompt that asks the user for its context.")
  public String promptThatAsks(Context ctx) {
    var answer = ctx.key("user_context").elicit("What context should the prompt use?", UserContext.class);
    return "Use this context: " + answer.data().context();
  }

  // Resources.

  @Resource(uri = "test://static-text", name = "static-text", description = "A text that stays the same.")
  public String staticText() {
    return "This is the content of the static text resource.";
  }

  @Resource(
      uri = "test://static-binary",
      name = "static-binary",
      description = "An image that stays the same.",
      mimeType = "image/png")
  public byte[] staticBinary() {
    return RED_PIXEL;
  }

  @Resource(uri = WATCHED, name = "watched-resource", description = "How often the lists have changed.")
  public synchronized String watched() {
    return "The lists have changed " + changes + " times.";
  }

  @ResourceTemplate(
      uriTemplate = "test://template/{id}/data",
      name = "template",
      description = "Data by id.",
      mimeType = "application/json")
  public Map<String, Object> template(String id) {
    return Map.of("id", id, "templateTest", true, "data", "Data for ID: " + id);
  }

  @CompleteResourceTemplate("test://template/{id}/data")
  public List<String> completeId(String id) {
    return starting(id, "123", "456");
  }
}
