package dev.mcpbridge;

import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.PromptMessage;
import dev.mcpbridge.v1.SamplingMessage;
import java.util.Arrays;
import java.util.List;

/** One turn of a prompt, or of a conversation with a model: {@code Message.user("What is this?", Image.file(path))}. */
public final class Message {
  private final String role;
  private final List<ContentBlock> blocks;

  private Message(String role, Object... content) {
    this.role = role;
    this.blocks = Arrays.stream(content).map(Content::block).toList();
  }

  /**
   * A message of the user: strings, {@link Image}, {@link Audio}, {@link Embedded}, {@link Link} or messages of the
   * contract.
   */
  public static Message user(Object... content) {
    return new Message("user", content);
  }

  /** A message of the model. */
  public static Message assistant(Object... content) {
    return new Message("assistant", content);
  }

  /** Converts the message to the contract's message for sampling. */
  public SamplingMessage sampling() {
    return SamplingMessage.newBuilder().setRole(role).addAllContent(blocks).build();
  }

  /** Converts the message to the contract's messages of a prompt, each of which has one block. */
  List<PromptMessage> prompt() {
    return blocks.stream().map(block -> PromptMessage.newBuilder().setRole(role).setContent(block).build()).toList();
  }
}
