package dev.mcpbridge;

import dev.mcpbridge.v1.LogLevel;
import dev.mcpbridge.v1.LogMessage;
import java.util.Arrays;
import java.util.List;

/**
 * Writes to the call's log. Nothing is sent below the level that the caller requested, or if it requested none. A
 * parameter of this type receives it.
 *
 * <p>The methods are those of SLF4J, {@code log.info("{} of {}", done, total)}. They also accept any other value:
 * {@code log.info(record)} is logged as JSON.
 */
public final class Log {
  private final Context ctx;
  private final String logger;

  Log(Context ctx, String logger) {
    this.ctx = ctx;
    this.logger = logger;
  }

  /** Returns a log that sends the name of a logger with each message. */
  public Log named(String logger) {
    return new Log(ctx, logger);
  }

  /** Reports whether the caller requested this level. */
  public boolean isEnabled(LogLevel level) {
    LogLevel requested = ctx.logLevel();
    return requested != LogLevel.LOG_LEVEL_UNSPECIFIED && level.getNumber() >= requested.getNumber();
  }

  /** Logs any value as JSON. */
  public void log(LogLevel level, Object data) {
    if (isEnabled(level)) {
      LogMessage.Builder message = LogMessage.newBuilder().setLevel(level).setData(Json.lenient(data));
      if (logger != null) {
        message.setLogger(logger);
      }
      ctx.emit(message.build());
    }
  }

  private void format(LogLevel level, String format, Object... arguments) {
    if (isEnabled(level)) {
      log(level, fill(format, Arrays.asList(arguments)));
    }
  }

  /** Replaces each {@code {}} by an argument, and appends the rest, such as an exception. */
  private static String fill(String format, List<Object> arguments) {
    StringBuilder text = new StringBuilder();
    int at = 0;
    int used = 0;
    int next;
    while (used < arguments.size() && (next = format.indexOf("{}", at)) >= 0) {
      text.append(format, at, next).append(arguments.get(used++));
      at = next + 2;
    }
    text.append(format.substring(at));
    for (Object remaining : arguments.subList(used, arguments.size())) {
      text.append(": ").append(remaining);
    }
    return text.toString();
  }

  public void debug(Object data) {
    log(LogLevel.LOG_LEVEL_DEBUG, data);
  }

  public void debug(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_DEBUG, format, arguments);
  }

  public void info(Object data) {
    log(LogLevel.LOG_LEVEL_INFO, data);
  }

  public void info(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_INFO, format, arguments);
  }

  public void notice(Object data) {
    log(LogLevel.LOG_LEVEL_NOTICE, data);
  }

  public void notice(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_NOTICE, format, arguments);
  }

  public void warn(Object data) {
    log(LogLevel.LOG_LEVEL_WARNING, data);
  }

  public void warn(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_WARNING, format, arguments);
  }

  public void error(Object data) {
    log(LogLevel.LOG_LEVEL_ERROR, data);
  }

  public void error(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_ERROR, format, arguments);
  }

  public void critical(Object data) {
    log(LogLevel.LOG_LEVEL_CRITICAL, data);
  }

  public void critical(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_CRITICAL, format, arguments);
  }

  public void alert(Object data) {
    log(LogLevel.LOG_LEVEL_ALERT, data);
  }

  public void alert(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_ALERT, format, arguments);
  }

  public void emergency(Object data) {
    log(LogLevel.LOG_LEVEL_EMERGENCY, data);
  }

  public void emergency(String format, Object... arguments) {
    format(LogLevel.LOG_LEVEL_EMERGENCY, format, arguments);
  }
}
