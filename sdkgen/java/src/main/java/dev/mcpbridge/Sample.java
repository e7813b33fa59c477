package dev.mcpbridge;

import dev.mcpbridge.v1.CallToolResult;
import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.CreateMessageResult;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.SamplingMessage;
import dev.mcpbridge.v1.ToolResultContent;
import dev.mcpbridge.v1.ToolUseContent;
import java.util.List;
import java.util.stream.Collectors;
import tools.jackson.core.JacksonException;

/** The answer of the client's model. */
public final class Sample extends Question {
  Sample(Context ctx, InputResponse response) {
    super(ctx, response);
  }

  /** The whole message. */
  public CreateMessageResult message() {
    return response().getCreateMessage();
  }

  /** The text of the message. */
  public String text() {
    return message().getContentList().stream().map(block -> block.getText().getText()).collect(Collectors.joining());
  }

  /** The answer as a turn, for the next question. */
  public SamplingMessage turn() {
    return SamplingMessage.newBuilder().setRole(message().getRole()).addAllContent(message().getContentList()).build();
  }

  /** The tool calls of the model. {@link #input} parses their arguments, {@link #toolResult} creates the replies. */
  public List<ToolUseContent> toolCalls() {
    return message().getContentList().stream().filter(ContentBlock::hasToolUse).map(ContentBlock::getToolUse).toList();
  }

  /** Parses the arguments of a tool call. Throws IllegalArgumentException if they cannot be converted to the type. */
  public static <T> T input(ToolUseContent call, Class<T> type) {
    try {
      return Json.MAPPER.treeToValue(Json.object(call.getInput()), type);
    } catch (JacksonException e) {
      throw new IllegalArgumentException(
          "the arguments of " + call.getName() + " cannot be converted: " + e.getOriginalMessage(), e);
    }
  }

  /** Returns the result of a tool call, for the next turn: {@code Message.user(Sample.toolResult(call, value))}. */
  public static ToolResultContent toolResult(ToolUseContent call, Object value) {
    return toolResult(call, (CallToolResult) Content.result(value, null, true));
  }

  /** Returns the failure of a tool call, for the next turn. */
  public static ToolResultContent toolFailure(ToolUseContent call, String why) {
    return toolResult(call, Content.failure(why));
  }

  private static ToolResultContent toolResult(ToolUseContent call, CallToolResult result) {
    var content = ToolResultContent.newBuilder().setToolUseId(call.getId()).addAllContent(result.getContentList());
    return content
        .setStructuredContent(result.getStructuredContent().toStringUtf8())
        .setIsError(result.getIsError())
        .build();
  }
}
