package dev.mcpbridge;

/** The client's answer is not of the form that was asked for. */
public class InvalidAnswerException extends ToolException {
  private static final long serialVersionUID = 1;

  public InvalidAnswerException(String message) {
    super(message);
  }
}
