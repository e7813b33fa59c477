package dev.mcpbridge;

/** Tells the caller how far its call has come. A parameter of this type gets the call's own. */
public interface Progress {
  /** {@code done} has to grow from one to the next. A call that was cancelled ends here, as by {@link Cancellation#check}. */
  default void progress(double done) {
    progress(done, null, null);
  }

  /** As {@link #progress(double)}, where it is known how much there is to do. */
  default void progress(double done, double total) {
    progress(done, total, null);
  }

  /** As {@link #progress(double)}, with a text for people. */
  default void progress(double done, double total, String message) {
    progress(done, Double.valueOf(total), message);
  }

  /** As {@link #progress(double)}. {@code total} and {@code message} may be null. */
  void progress(double done, Double total, String message);
}
