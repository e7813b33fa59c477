package dev.mcpbridge;

import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.CreateMessageResult;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.ToolUseContent;
import java.util.List;
import java.util.stream.Collectors;

/** The answer of the client's model. */
public final class Sample extends Question {
  Sample(Context ctx, InputResponse response) {
    super(ctx, response);
  }

  /** All of it. */
  public CreateMessageResult message() {
    return response().getCreateMessage();
  }

  /** Its text. */
  public String text() {
    return message().getContentList().stream().map(block -> block.getText().getText()).collect(Collectors.joining());
  }

  /** The tools it wishes to have called. */
  public List<ToolUseContent> toolCalls() {
    return message().getContentList().stream().filter(ContentBlock::hasToolUse).map(ContentBlock::getToolUse).toList();
  }
}
