package dev.mcpbridge;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;

/**
 * Makes System.out safe: standard output has one line for the bridge, the handshake. All other output, also of native
 * code and child processes, goes to the log of the bridge.
 */
final class Stdout {
  static final boolean MANAGED = "mcpbridge.v1".equals(System.getenv("MCPBRIDGE_PLUGIN"));

  private Stdout() {}

  /** Redirects System.out to standard error. Must be called before any output. */
  static synchronized void redirect() {
    if (System.getProperty("slf4j.internal.verbosity") == null) {
      // SLF4J would print a warning that there is no logger, which is not a problem here.
      System.setProperty("slf4j.internal.verbosity", "ERROR");
    }
    if (MANAGED) {
      System.out.flush();
      System.setOut(new PrintStream(new FileOutputStream(FileDescriptor.err), true, Charset.defaultCharset()));
      BridgeLog.install();
    }
  }

  /** Writes the handshake to the original standard output in one write. */
  static void writeHandshake(String line) {
    try {
      @SuppressWarnings("resource") // Standard output must stay open.
      FileOutputStream out = new FileOutputStream(FileDescriptor.out);
      out.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
