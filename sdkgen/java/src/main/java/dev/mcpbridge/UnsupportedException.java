package dev.mcpbridge;

/** The client does not support the request. If uncaught, the model is asked to ask the user itself. */
public class UnsupportedException extends ToolException {
  private static final long serialVersionUID = 1;

  public UnsupportedException(String message) {
    super(message);
  }
}
