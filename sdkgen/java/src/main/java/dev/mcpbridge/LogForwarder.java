package dev.mcpbridge;

import dev.mcpbridge.v1.LogLevel;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** Sends log records during a call to its caller. */
final class LogForwarder extends Handler {
  private static final List<Logger> LOGGERS = new ArrayList<>(); // java.util.logging keeps only weak references.
  private static final SimpleFormatter FORMATTER = new SimpleFormatter();

  static synchronized void add(String... loggers) {
    for (String name : loggers) {
      Logger logger = Logger.getLogger(name);
      logger.addHandler(new LogForwarder());
      LOGGERS.add(logger);
    }
  }

  private LogForwarder() {}

  @Override
  public void publish(LogRecord record) {
    Context ctx = Context.current();
    if (ctx != null && isLoggable(record)) {
      String thrown = record.getThrown() == null ? "" : ": " + record.getThrown();
      ctx.log().named(record.getLoggerName()).log(level(record.getLevel()), FORMATTER.formatMessage(record) + thrown);
    }
  }

  private static LogLevel level(Level level) {
    int value = level.intValue();
    return value >= Level.SEVERE.intValue()
        ? LogLevel.LOG_LEVEL_ERROR
        : value >= Level.WARNING.intValue()
            ? LogLevel.LOG_LEVEL_WARNING
            : value >= Level.INFO.intValue() ? LogLevel.LOG_LEVEL_INFO : LogLevel.LOG_LEVEL_DEBUG;
  }

  @Override
  public void flush() {}

  @Override
  public void close() {}
}
