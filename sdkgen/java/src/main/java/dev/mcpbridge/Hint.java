package dev.mcpbridge;

/** A hint of a {@link Tool}. UNKNOWN is not NO. */
public enum Hint {
  UNKNOWN,
  YES,
  NO
}
