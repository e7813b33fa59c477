package dev.mcpbridge;

/** Reports progress to the caller. A parameter of this type receives it. */
public interface Progress {
  /** {@code done} must increase with each report. Throws if the call was canceled, like {@link Cancellation#check}. */
  default void progress(double done) {
    progress(done, null, null);
  }

  /** Like {@link #progress(double)}, with a total. */
  default void progress(double done, double total) {
    progress(done, total, null);
  }

  /** Like {@link #progress(double)}, with a message. */
  default void progress(double done, double total, String message) {
    progress(done, Double.valueOf(total), message);
  }

  /** Like {@link #progress(double)}. {@code total} and {@code message} may be null. */
  void progress(double done, Double total, String message);
}
