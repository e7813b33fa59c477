package dev.mcpbridge;

/** The tool used the answer to a question that the user declined or canceled. */
public class NotAcceptedException extends ToolException {
  private static final long serialVersionUID = 1;

  public NotAcceptedException(String message) {
    super(message);
  }
}
