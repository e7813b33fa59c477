package dev.mcpbridge;

/** The client answered a question with an error. */
public class RefusedException extends ToolException {
  private static final long serialVersionUID = 1;

  public RefusedException(String message) {
    super(message);
  }
}
