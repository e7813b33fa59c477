package dev.mcpbridge;

/** Fails the call with exactly this JSON-RPC error. The client receives it; the model does not. */
public class McpException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final int code;
  private final transient Object data;

  public McpException(int code, String message) {
    this(code, message, null);
  }

  /** {@code data} is any value with a JSON representation, or null for none. */
  public McpException(int code, String message, Object data) {
    super(message);
    this.code = code;
    this.data = data;
  }

  public int code() {
    return code;
  }

  public Object data() {
    return data;
  }
}
