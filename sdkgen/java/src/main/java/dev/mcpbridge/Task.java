package dev.mcpbridge;

/**
 * Whether calls of a tool can be tasks. Clients that support tasks do not wait for the result, but ask for the status
 * of the task. The bridge keeps it: progress becomes its status, questions become its input requests, and the call is
 * canceled when the task is.
 */
public enum Task {
  /** Never. Clients wait for the result. */
  FORBIDDEN,
  /** If the client supports tasks. Other clients wait for the result. */
  OPTIONAL,
  /** Always. Calls of clients that do not support tasks are errors. */
  REQUIRED
}
