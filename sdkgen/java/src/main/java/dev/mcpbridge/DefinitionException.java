package dev.mcpbridge;

/**
 * A tool, resource or prompt is written in a way that cannot work. The message names the method and the parameter to change.
 */
public class DefinitionException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  public DefinitionException(String message) {
    super(message);
  }
}
