package dev.mcpbridge;

/**
 * The tool failed, and the model reads why. Any other exception does the same, but its stack trace is logged too.
 *
 * <p>Resources and prompts have no such results: there the client reads it, as a JSON-RPC error.
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
