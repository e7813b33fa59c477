package dev.mcpbridge;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.logging.ConsoleHandler;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogManager;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** Writes records of java.util.logging as lines of JSON to standard error, which the bridge logs with their levels. */
final class BridgeLog extends Handler {
  /** The maximum length of a line that the bridge parses. */
  private static final int MAX_LINE = 8000;

  private static final SimpleFormatter FORMATTER = new SimpleFormatter();

  private BridgeLog() {}

  /** Replaces the default handler. Other configurations are kept. */
  static void install() {
    Logger root = LogManager.getLogManager().getLogger("");
    Handler[] handlers = root.getHandlers();
    if (handlers.length == 1
        && handlers[0].getClass() == ConsoleHandler.class
        && handlers[0].getFormatter().getClass() == SimpleFormatter.class) {
      root.removeHandler(handlers[0]);
      BridgeLog log = new BridgeLog();
      log.setLevel(handlers[0].getLevel());
      root.addHandler(log);
    }
  }

  @Override
  public void publish(LogRecord record) {
    if (isLoggable(record)) {
      write(level(record.getLevel()), record.getLoggerName(), FORMATTER.formatMessage(record), record.getThrown());
    }
  }

  static String level(Level level) {
    int value = level.intValue();
    return value >= Level.SEVERE.intValue()
        ? "error"
        : value >= Level.WARNING.intValue() ? "warn" : value >= Level.INFO.intValue() ? "info" : "debug";
  }

  /** Logs even during exit, when java.util.logging is closed. */
  static void error(String message) {
    if (Stdout.MANAGED) {
      write("error", "mcpbridge", message, null);
    } else {
      System.err.println("SEVERE: " + message);
    }
  }

  private static void write(String level, String logger, String message, Throwable thrown) {
    Map<String, String> texts = new LinkedHashMap<>();
    texts.put("level", level);
    texts.put("logger", String.valueOf(logger));
    texts.put("message", String.valueOf(message));
    if (thrown != null) {
      StringWriter trace = new StringWriter();
      thrown.printStackTrace(new PrintWriter(trace));
      texts.put("trace", trace.toString().strip());
    }
    byte[] line = line(texts);
    while (line.length > MAX_LINE) { // Keep the beginning and the end.
      var longest =
          texts.entrySet().stream().max((a, b) -> a.getValue().length() - b.getValue().length()).orElseThrow();
      String text = longest.getValue();
      int third = text.length() / 3;
      longest.setValue(text.substring(0, third) + " ... " + text.substring(text.length() - third));
      line = line(texts);
    }
    try {
      @SuppressWarnings("resource") // Standard error must stay open.
      FileOutputStream err = new FileOutputStream(FileDescriptor.err);
      err.write(line); // In one write.
    } catch (IOException e) {
      // Standard error is closed.
    }
  }

  private static byte[] line(Map<String, String> texts) {
    return (Json.MAPPER.writeValueAsString(texts) + "\n").getBytes(StandardCharsets.UTF_8);
  }

  @Override
  public void flush() {}

  @Override
  public void close() {}
}
