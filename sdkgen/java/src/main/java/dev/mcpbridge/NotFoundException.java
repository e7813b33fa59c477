package dev.mcpbridge;

/** The resource or the object that a prompt's arguments name does not exist. */
public class NotFoundException extends ToolException {
  private static final long serialVersionUID = 1;

  public NotFoundException(String message) {
    super(message);
  }
}
