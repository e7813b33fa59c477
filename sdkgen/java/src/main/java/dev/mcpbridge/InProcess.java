package dev.mcpbridge;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import com.google.protobuf.MessageLite;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.CompleteRequest;
import dev.mcpbridge.v1.CompleteResponse;
import dev.mcpbridge.v1.GetPromptRequest;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.LogMessage;
import dev.mcpbridge.v1.ReadResourceRequest;
import java.util.List;
import java.util.Map;

/** Calls an App without gRPC. Internal: use {@code dev.mcpbridge.testing}. */
public final class InProcess {
  /** The version of the contract that the SDK was built with. */
  public static final int CONTRACT = Service.CONTRACT;

  private InProcess() {}

  /** The kind of request. */
  public enum Kind {
    TOOL,
    RESOURCE,
    PROMPT
  }

  /** Runs one round of a call, which returns its result or an InputRequired. {@code arguments} are JSON. */
  public static MessageLite round(
      App app,
      Kind kind,
      String name,
      ByteString arguments,
      CallContext call,
      Map<String, InputResponse> responses,
      ByteString state,
      List<dev.mcpbridge.v1.Progress> progress,
      List<LogMessage> logs,
      Runnable taskStarted) {
    Message request = request(kind, name, arguments, call, responses, state);
    Context ctx =
        new Context(
            app,
            request,
            call,
            responses,
            state,
            new Context.Events() {
              @Override
              public synchronized void progress(dev.mcpbridge.v1.Progress event) {
                progress.add(event);
              }

              @Override
              public synchronized void log(LogMessage message) {
                logs.add(message);
              }

              @Override
              public void taskStarted() {
                taskStarted.run();
              }
            });
    return switch (kind) {
      case TOOL -> app.callTool(name, arguments, ctx);
      case RESOURCE -> app.readResource((ReadResourceRequest) request, ctx);
      case PROMPT -> app.getPrompt((GetPromptRequest) request, ctx);
    };
  }

  private static Message request(
      Kind kind,
      String name,
      ByteString arguments,
      CallContext call,
      Map<String, InputResponse> responses,
      ByteString state) {
    return switch (kind) {
      case TOOL -> {
        var request =
            CallToolRequest.newBuilder()
                .setContext(call)
                .setName(name)
                .setArguments(arguments)
                .putAllInputResponses(responses);
        yield (state == null ? request : request.setRequestState(state)).build();
      }
      case RESOURCE -> {
        var request = ReadResourceRequest.newBuilder().setContext(call).setUri(name).putAllInputResponses(responses);
        yield (state == null ? request : request.setRequestState(state)).build();
      }
      case PROMPT -> {
        var request = GetPromptRequest.newBuilder().setContext(call).setName(name).putAllInputResponses(responses);
        Json.object(arguments).forEachEntry((key, value) -> request.putArguments(key, value.asString()));
        yield (state == null ? request : request.setRequestState(state)).build();
      }
    };
  }

  /** Implements Complete. */
  public static CompleteResponse complete(App app, CompleteRequest request) {
    return app.complete(request);
  }

  /** Returns the definitions of the tools as clients receive them. */
  public static List<dev.mcpbridge.v1.Tool> tools(App app) {
    return app.listTools(false).getToolsList();
  }

  /** Returns the JSON of a value. */
  public static String json(Object value) {
    return Json.text(value);
  }
}
