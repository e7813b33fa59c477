package dev.mcpbridge;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;

/**
 * Makes System.out safe: the bridge reads one line from our standard output, the handshake. What is printed goes to standard
 * error, which the bridge takes for log; and what native code and child processes print to standard output, too.
 */
final class Stdout {
  static final boolean MANAGED = "mcpbridge.v1".equals(System.getenv("MCPBRIDGE_PLUGIN"));

  private Stdout() {}

  /** Points System.out at standard error. Before anything else. */
  static synchronized void take() {
    if (System.getProperty("slf4j.internal.verbosity") == null) {
      // That there is no logger is nothing to talk about.
      System.setProperty("slf4j.internal.verbosity", "ERROR");
    }
    if (MANAGED) {
      System.out.flush();
      System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true, Charset.defaultCharset()));
      BridgeLog.take();
    }
  }

  /** Writes the handshake to the real standard output, in one piece. */
  static void writeHandshake(String line) {
    try {
      @SuppressWarnings("resource") // Standard output is the process's.
      FileOutputStream out = new FileOutputStream(FileDescriptor.out);
      out.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
