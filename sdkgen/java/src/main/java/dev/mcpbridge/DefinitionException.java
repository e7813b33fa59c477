package dev.mcpbridge;

/**
 * A tool, resource or prompt is written in a way that cannot work. The message names the line, the method and the parameter to
 * change, so there is no stack trace.
 */
public final class DefinitionException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  /** What is wrong, without the line. */
  final String what;

  DefinitionException(String what) {
    this(Where.caller(), what);
  }

  DefinitionException(String where, String what) {
    super(where + ": " + what);
    this.what = what;
    setStackTrace(new StackTraceElement[0]);
  }
}
