package dev.mcpbridge;

/**
 * Unwinds a handler that asked a question without an answer. It runs again once the answer has arrived.
 *
 * <p>It is an Error, so that {@code catch (Exception e)} in a tool does not catch it. Do not catch it.
 */
public final class RoundEnd extends Error {
  private static final long serialVersionUID = 1;

  RoundEnd() {
    super("a question has no answer yet; the call goes on when the client has answered", null, false, false);
  }
}
