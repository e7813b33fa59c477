package dev.mcpbridge;

import java.util.List;
import java.util.stream.Collectors;

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

  /** All of several. */
  DefinitionException(List<DefinitionException> all) {
    super(all.stream().map(Throwable::getMessage).collect(Collectors.joining("\n")));
    this.what = getMessage();
    setStackTrace(new StackTraceElement[0]);
  }

  DefinitionException(String where, String what) {
    super(where + ": " + what);
    this.what = what;
    setStackTrace(new StackTraceElement[0]);
  }
}
