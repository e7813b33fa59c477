package dev.mcpbridge;

/**
 * Unwinds a handler that asked something there is no answer to yet. It is called again when there is.
 *
 * <p>An Error, so that a tool's {@code catch (Exception e)} does not take it for a failure. Do not catch it.
 */
public final class RoundEnd extends Error {
  private static final long serialVersionUID = 1;

  RoundEnd() {
    super("a question has no answer yet; the call goes on when the client has answered", null, false, false);
  }
}
