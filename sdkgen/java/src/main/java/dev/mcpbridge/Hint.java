package dev.mcpbridge;

/** A hint of a {@link Tool}. UNKNOWN is not sent: clients then assume the default of MCP, which is not always NO. */
public enum Hint {
  UNKNOWN,
  YES,
  NO
}
