package dev.mcpbridge;

/** The client cannot be asked this. Uncaught, it tells the model to ask the user itself. */
public class UnsupportedException extends ToolException {
  private static final long serialVersionUID = 1;

  public UnsupportedException(String message) {
    super(message);
  }
}
