package dev.mcpbridge;

/** The client's answer does not conform to the requested schema. */
public class InvalidAnswerException extends ToolException {
  private static final long serialVersionUID = 1;

  public InvalidAnswerException(String message) {
    super(message);
  }
}
