package dev.mcpbridge;

import java.util.Arrays;
import java.util.regex.Pattern;

/**
 * A tool, resource or prompt is written in a way that cannot work. The message names the method and the parameter to change, and
 * the stack trace begins at the line that added it.
 */
public class DefinitionException extends IllegalArgumentException {
  private static final long serialVersionUID = 1;
  private static final Pattern OURS = Pattern.compile("dev\\.mcpbridge\\.(App|Bridge|Methods|Schema|\\w+Builder)\\b.*");

  public DefinitionException(String message) {
    super(message);
    StackTraceElement[] trace = getStackTrace();
    int frame = 0;
    while (frame < trace.length && OURS.matcher(trace[frame].getClassName()).matches()) {
      frame++;
    }
    if (frame < trace.length) {
      setStackTrace(Arrays.copyOfRange(trace, frame, trace.length));
    }
  }
}
