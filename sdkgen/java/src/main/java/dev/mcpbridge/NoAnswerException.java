package dev.mcpbridge;

/** The client did not answer in time. */
public class NoAnswerException extends ToolException {
  private static final long serialVersionUID = 1;

  public NoAnswerException(String message) {
    super(message);
  }
}
