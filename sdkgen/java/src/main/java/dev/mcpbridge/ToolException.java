package dev.mcpbridge;

/**
 * The tool failed; the model reads the message. Other exceptions do the same, but their stack traces are logged too.
 *
 * <p>Resources and prompts have no error results: the client receives a JSON-RPC error instead.
 */
public class ToolException extends RuntimeException {
  private static final long serialVersionUID = 1;

  public ToolException(String message) {
    super(message);
  }

  public ToolException(String message, Throwable cause) {
    super(message, cause);
  }
}
