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
import dev.mcpbridge.v1.CompletionContext;
import dev.mcpbridge.v1.CompletionReference;
import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.CreateMessageResult;
import dev.mcpbridge.v1.ElicitResult;
import dev.mcpbridge.v1.ElicitationCapability;
import dev.mcpbridge.v1.GetPromptResult;
import dev.mcpbridge.v1.Implementation;
import dev.mcpbridge.v1.InputRequest;
import dev.mcpbridge.v1.InputRequired;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.ListRootsResult;
import dev.mcpbridge.v1.LogLevel;
import dev.mcpbridge.v1.LogMessage;
import dev.mcpbridge.v1.Progress;
import dev.mcpbridge.v1.PromptReference;
import dev.mcpbridge.v1.ReadResourceResult;
import dev.mcpbridge.v1.ResourceReference;
import dev.mcpbridge.v1.Root;
import dev.mcpbridge.v1.RootsCapability;
import dev.mcpbridge.v1.SamplingCapability;
import dev.mcpbridge.v1.TextContent;
import dev.mcpbridge.v1.Tool;
import dev.mcpbridge.v1.VerifiedCaller;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Calls an app in a test, without a bridge and without gRPC:
 *
 * <pre>{@code
 * var called = new Caller(app).answers(new Colour("red")).tool("greet", Map.of("name", "Ada"));
 * assertEquals("Hello Ada, here is something red for you.", called.text());
 * }</pre>
 */
public final class Caller {
  /** The context of a client that can answer all questions, and requests progress and all logs. */
  public static final CallContext EVERYTHING =
      CallContext.newBuilder()
          .setClientInfo(Implementation.newBuilder().setName("dev.mcpbridge.testing").setVersion("1"))
          .setClientCapabilities(
              ClientCapabilities.newBuilder()
                  .setElicitation(
                      ElicitationCapability.newBuilder()
                          .setForm(Capability.getDefaultInstance())
                          .setUrl(Capability.getDefaultInstance()))
                  .setSampling(SamplingCapability.newBuilder().setTools(Capability.getDefaultInstance()))
                  .setRoots(RootsCapability.getDefaultInstance()))
          .setLogLevel(LogLevel.LOG_LEVEL_DEBUG)
          .setProgressWanted(true)
          .setVerified(
              VerifiedCaller.newBuilder().setContractVersion(InProcess.CONTRACT).setProtocolVersion("2026-07-28"))
          .build();

  /** An answer to a question: the user declined. */
  public static final Object DECLINE = InputResponse.newBuilder().setElicit(action("decline")).build();

  /** An answer to a question: the user dismissed it. */
  public static final Object CANCEL = InputResponse.newBuilder().setElicit(action("cancel")).build();

  /**
   * The result of a call, with its events and questions, and whether its last round has called {@link
   * dev.mcpbridge.Context#startTask}.
   */
  public record Called<R extends MessageLite>(
      R result,
      List<Progress> progress,
      List<LogMessage> logs,
      List<InputRequest> asked,
      int rounds,
      boolean taskStarted) {
    /** The text of the result. */
    public String text() {
      Stream<String> texts;
      if (result instanceof CallToolResult r) {
        texts = r.getContentList().stream().map(block -> block.getText().getText());
      } else if (result instanceof ReadResourceResult r) {
        texts = r.getContentsList().stream().map(contents -> contents.getText());
      } else {
        texts =
            ((GetPromptResult) result)
                .getMessagesList().stream().map(message -> message.getContent().getText().getText());
      }
      return texts.collect(Collectors.joining("\n"));
    }

    /** Reports whether the tool failed. */
    public boolean isError() {
      return ((CallToolResult) result).getIsError();
    }

    /** The structured content of a tool, as JSON. */
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

  /** Sets the context of the calls, instead of {@link #EVERYTHING}. */
  public Caller context(CallContext context) {
    this.context = context;
    return this;
  }

  /**
   * Adds answers to the questions of calls, in their order: the content of a form as a record, map or simple value,
   * {@link #DECLINE}, {@link #CANCEL}, the text of a model, a list of the URIs of roots, or an InputResponse.
   */
  public Caller answers(Object... answers) {
    this.answers.addAll(Arrays.asList(answers));
    return this;
  }

  /** Calls a tool. Its arguments are a map or a record. */
  public Called<CallToolResult> tool(String name, Object arguments) {
    return call(InProcess.Kind.TOOL, name, ByteString.copyFromUtf8(InProcess.json(arguments)));
  }

  /** Calls a tool without arguments. */
  public Called<CallToolResult> tool(String name) {
    return tool(name, Map.of());
  }

  /** Reads a resource. */
  public Called<ReadResourceResult> resource(String uri) {
    return call(InProcess.Kind.RESOURCE, uri, ByteString.EMPTY);
  }

  /** Gets a prompt. */
  public Called<GetPromptResult> prompt(String name, Map<String, String> arguments) {
    return call(InProcess.Kind.PROMPT, name, ByteString.copyFromUtf8(InProcess.json(arguments)));
  }

  /** Completes an argument of a prompt, given the other arguments. */
  public List<String> completePrompt(String prompt, String argument, String typed, Map<String, String> others) {
    return complete(
        CompletionReference.newBuilder().setPrompt(PromptReference.newBuilder().setName(prompt)),
        argument,
        typed,
        others);
  }

  /** Completes an argument of a prompt, without other arguments. */
  public List<String> completePrompt(String prompt, String argument, String typed) {
    return completePrompt(prompt, argument, typed, Map.of());
  }

  /** Completes a variable of a resource template, given the other variables. */
  public List<String> completeResourceTemplate(
      String uriTemplate, String variable, String typed, Map<String, String> others) {
    return complete(
        CompletionReference.newBuilder().setResource(ResourceReference.newBuilder().setUri(uriTemplate)),
        variable,
        typed,
        others);
  }

  private List<String> complete(
      CompletionReference.Builder reference, String argument, String typed, Map<String, String> others) {
    var request =
        CompleteRequest.newBuilder()
            .setContext(context)
            .setReference(reference)
            .setArgument(CompletionArgument.newBuilder().setName(argument).setValue(typed))
            .setArgumentContext(CompletionContext.newBuilder().putAllArguments(others));
    return InProcess.complete(app, request.build()).getCompletion().getValuesList();
  }

  /** Returns the definitions of the tools as clients receive them. */
  public List<Tool> tools() {
    return InProcess.tools(app);
  }

  @SuppressWarnings("unchecked") // The kind determines R.
  private <R extends MessageLite> Called<R> call(InProcess.Kind kind, String name, ByteString arguments) {
    List<Progress> progress = new ArrayList<>();
    List<LogMessage> logs = new ArrayList<>();
    List<InputRequest> asked = new ArrayList<>();
    Map<String, InputResponse> responses = new HashMap<>();
    ByteString state = null;
    for (int rounds = 1; ; rounds++) {
      var taskStarted = new AtomicBoolean();
      MessageLite got =
          InProcess.round(
              app, kind, name, arguments, context, responses, state, progress, logs, () -> taskStarted.set(true));
      if (!(got instanceof InputRequired required)) {
        return new Called<>((R) got, progress, logs, asked, rounds, taskStarted.get());
      }
      responses = new HashMap<>();
      state = required.hasRequestState() ? required.getRequestState() : null;
      for (InputRequest question : required.getInputRequestsList()) {
        asked.add(question);
        if (answers.isEmpty()) {
          throw new AssertionError(name + " asked, and the test has no answer: " + question);
        }
        responses.put(question.getKey(), response(answers.removeFirst(), question));
      }
    }
  }

  private static InputResponse response(Object answer, InputRequest question) {
    if (answer instanceof InputResponse response) {
      return response;
    }
    if (question.hasCreateMessage() || question.hasRaw()) { // Only sampling is sent in MCP's format.
      var text = ContentBlock.newBuilder().setText(TextContent.newBuilder().setText((String) answer));
      var message = CreateMessageResult.newBuilder().setRole("assistant").addContent(text).setModel("test");
      return InputResponse.newBuilder().setCreateMessage(message).build();
    }
    if (question.hasListRoots()) {
      var roots = ListRootsResult.newBuilder();
      ((Collection<?>) answer).forEach(uri -> roots.addRoots(Root.newBuilder().setUri((String) uri)));
      return InputResponse.newBuilder().setListRoots(roots).build();
    }
    String json = InProcess.json(answer);
    String content = json.startsWith("{") ? json : InProcess.json(Map.of("value", answer));
    return InputResponse.newBuilder().setElicit(action("accept").setContent(content)).build();
  }

  private static ElicitResult.Builder action(String action) {
    return ElicitResult.newBuilder().setAction(action);
  }
}
