package dev.mcpbridge;

/** Whether the caller has given up. A parameter of this type gets the call's own. The call's thread is interrupted too. */
public interface Cancellation {
  /** Whether the caller has given up. */
  boolean isCancelled();

  /** Ends the call by a {@link java.util.concurrent.CancellationException} if the caller has given up. */
  void check();
}
