package dev.mcpbridge;

/** The user declined or cancelled a question whose answer the tool went on to use. */
public class NotAcceptedException extends ToolException {
  private static final long serialVersionUID = 1;

  public NotAcceptedException(String message) {
    super(message);
  }
}
