package dev.mcpbridge.testing;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import dev.mcpbridge.App;
import dev.mcpbridge.InProcess;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.CallToolResult;
import dev.mcpbridge.v1.Capability;
import dev.mcpbridge.v1.ClientCapabilities;
import dev.mcpbridge.v1.CompleteRequest;
import dev.mcpbridge.v1.CompletionArgument;
import dev.mcpbridge.v1.CompletionReference;
import dev.mcpbridge.v1.ElicitAction;
import dev.mcpbridge.v1.ElicitResult;
import dev.mcpbridge.v1.ElicitationCapability;
import dev.mcpbridge.v1.GetPromptResult;
import dev.mcpbridge.v1.Implementation;
import dev.mcpbridge.v1.InputRequest;
import dev.mcpbridge.v1.InputRequired;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.LogLevel;
import dev.mcpbridge.v1.LogMessage;
import dev.mcpbridge.v1.Progress;
import dev.mcpbridge.v1.PromptReference;
import dev.mcpbridge.v1.ReadResourceResult;
import dev.mcpbridge.v1.RootsCapability;
import dev.mcpbridge.v1.SamplingCapability;
import dev.mcpbridge.v1.Tool;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Calls an app in a test, without a bridge and without gRPC:
 *
 * <pre>{@code
 * var called = new Caller(app).answers(new Colour("red")).tool("greet", Map.of("name", "Ada"));
 * assertEquals("Hello Ada, here is something red for you.", called.text());
 * }</pre>
 */
public final class Caller {
  /** A caller that can be asked everything and wants to see everything. */
  public static final CallContext EVERYTHING =
      CallContext.newBuilder()
          .setProtocolVersion("2026-07-28")
          .setClientInfo(Implementation.newBuilder().setName("dev.mcpbridge.testing").setVersion("1"))
          .setClientCapabilities(
              ClientCapabilities.newBuilder()
                  .setElicitation(
                      ElicitationCapability.newBuilder()
                          .setForm(Capability.getDefaultInstance())
                          .setUrl(Capability.getDefaultInstance()))
                  .setSampling(SamplingCapability.getDefaultInstance())
                  .setRoots(RootsCapability.getDefaultInstance()))
          .setLogLevel(LogLevel.LOG_LEVEL_DEBUG)
          .setProgressWanted(true)
          .build();

  /** An answer to a question: the user said no. */
  public static final Object DECLINE = InputResponse.newBuilder().setElicit(action(ElicitAction.ELICIT_ACTION_DECLINE)).build();

  /** An answer to a question: the user closed it. */
  public static final Object CANCEL = InputResponse.newBuilder().setElicit(action(ElicitAction.ELICIT_ACTION_CANCEL)).build();

  /** What a call of a tool came to, and what happened on the way. */
  public record Called<R extends MessageLite>(
      R result, List<Progress> progress, List<LogMessage> logs, List<InputRequest> asked, int rounds) {
    /** The text of a tool's result. */
    public String text() {
      return String.join("\n", ((CallToolResult) result).getContentList().stream().map(b -> b.getText().getText()).toList());
    }

    /** Whether a tool failed. */
    public boolean isError() {
      return ((CallToolResult) result).getIsError();
    }

    /** A tool's structured result, as JSON. */
    public String structured() {
      return ((CallToolResult) result).getStructuredContent().toStringUtf8();
    }
  }

  private final App app;
  private final Deque<Object> answers = new ArrayDeque<>();
  private CallContext context = EVERYTHING;

  public Caller(App app) {
    this.app = app;
  }

  /** Who calls, instead of {@link #EVERYTHING}. */
  public Caller as(CallContext context) {
    this.context = context;
    return this;
  }

  /**
   * The answers to the questions of calls, in the order they are asked: what the user fills in, as a record, a map or a simple
   * value, {@link #DECLINE}, {@link #CANCEL}, or an InputResponse.
   */
  public Caller answers(Object... answers) {
    this.answers.addAll(Arrays.asList(answers));
    return this;
  }

  /** Calls a tool. Its arguments are a map or a record. */
  public Called<CallToolResult> tool(String name, Object arguments) {
    return call(InProcess.Kind.TOOL, name, InProcess.json(arguments));
  }

  /** Calls a tool without arguments. */
  public Called<CallToolResult> tool(String name) {
    return tool(name, Map.of());
  }

  /** Reads a resource. */
  public Called<ReadResourceResult> resource(String uri) {
    return call(InProcess.Kind.RESOURCE, uri, ByteString.EMPTY);
  }

  /** Fills in a prompt. */
  public Called<GetPromptResult> prompt(String name, Map<String, String> arguments) {
    return call(InProcess.Kind.PROMPT, name, InProcess.json(arguments));
  }

  /** Completes an argument of a prompt. */
  public List<String> completePrompt(String prompt, String argument, String typed) {
    var request =
        CompleteRequest.newBuilder()
            .setRef(CompletionReference.newBuilder().setPrompt(PromptReference.newBuilder().setName(prompt)))
            .setArgument(CompletionArgument.newBuilder().setName(argument).setValue(typed));
    return InProcess.complete(app, request.build()).getCompletion().getValuesList();
  }

  /** The tools, as clients see them. */
  public List<Tool> tools() {
    return InProcess.tools(app);
  }

  @SuppressWarnings("unchecked") // By its kind.
  private <R extends MessageLite> Called<R> call(InProcess.Kind kind, String name, ByteString arguments) {
    List<Progress> progress = new ArrayList<>();
    List<LogMessage> logs = new ArrayList<>();
    List<InputRequest> asked = new ArrayList<>();
    Map<String, InputResponse> responses = new HashMap<>();
    ByteString state = null;
    for (int rounds = 1; ; rounds++) {
      MessageLite got = InProcess.round(app, kind, name, arguments, context, responses, state, progress, logs);
      if (!(got instanceof InputRequired required)) {
        return new Called<>((R) got, progress, logs, asked, rounds);
      }
      responses = new HashMap<>();
      state = required.hasState() ? required.getState() : null;
      for (var question : required.getRequestsMap().entrySet()) {
        asked.add(question.getValue());
        if (answers.isEmpty()) {
          throw new AssertionError(name + " asked, and the test has no answer: " + question.getValue());
        }
        responses.put(question.getKey(), response(answers.removeFirst()));
      }
    }
  }

  private static InputResponse response(Object answer) {
    if (answer instanceof InputResponse response) {
      return response;
    }
    ByteString json = InProcess.json(answer);
    ByteString content = json.startsWith(ByteString.copyFromUtf8("{")) ? json : InProcess.json(Map.of("value", answer));
    return InputResponse.newBuilder().setElicit(action(ElicitAction.ELICIT_ACTION_ACCEPT).setContent(content)).build();
  }

  private static ElicitResult.Builder action(ElicitAction action) {
    return ElicitResult.newBuilder().setAction(action);
  }
}
