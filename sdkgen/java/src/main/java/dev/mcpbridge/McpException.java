package dev.mcpbridge;

/** Answers the call with this JSON-RPC error, exactly. The model does not see it; the client does. */
public class McpException extends RuntimeException {
  private static final long serialVersionUID = 1;

  private final long code;
  private final transient Object data;

  public McpException(long code, String message) {
    this(code, message, null);
  }

  /** {@code data} is anything that can be JSON, or null for none. */
  public McpException(long code, String message, Object data) {
    super(message);
    this.code = code;
    this.data = data;
  }

  public long code() {
    return code;
  }

  public Object data() {
    return data;
  }
}
