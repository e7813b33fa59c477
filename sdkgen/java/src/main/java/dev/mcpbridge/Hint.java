package dev.mcpbridge;

/** A hint of a {@link Tool}. To say nothing is not to say no. */
public enum Hint {
  UNKNOWN,
  YES,
  NO
}
