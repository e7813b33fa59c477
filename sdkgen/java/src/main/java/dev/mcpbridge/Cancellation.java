package dev.mcpbridge;

/** Whether the caller has given up. A parameter of this type gets the call's own. The call's thread is interrupted too. */
public interface Cancellation {
  /** Whether the caller has given up. */
  boolean isCancelled();

  /**
   * Runs this when the caller gives up, at once if it has: to stop what an interrupt does not reach. In a thread that must not be
   * kept waiting, and not at all if the call ends before.
   */
  void onCancelled(Runnable action);

  /** Ends the call by a {@link java.util.concurrent.CancellationException} if the caller has given up. */
  void check();
}
