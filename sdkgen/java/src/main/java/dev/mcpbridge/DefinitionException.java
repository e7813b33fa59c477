package dev.mcpbridge;

import java.util.List;
import java.util.stream.Collectors;

/**
 * The definition of a tool, resource or prompt is invalid. The message names the line, the method and the parameter to
 * change, so there is no stack trace.
 */
public final class DefinitionException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;

  /** The mistake, without the line. */
  final String what;

  DefinitionException(String what) {
    this(SourceLine.caller(), what);
  }

  /** Combines several. */
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
