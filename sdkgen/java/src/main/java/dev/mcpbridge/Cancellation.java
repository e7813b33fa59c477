package dev.mcpbridge;

/**
 * The cancellation of a call. A parameter of this type receives it. The thread of a canceled call is interrupted too.
 */
public interface Cancellation {
  /** Reports whether the call was canceled. */
  boolean isCancelled();

  /**
   * Runs the function when the call is canceled, or at once if it was, to stop work that an interrupt does not stop. It
   * must not block, and is not run if the call ends before.
   */
  void onCancelled(Runnable action);

  /** Throws a {@link java.util.concurrent.CancellationException} if the call was canceled. */
  void check();
}
