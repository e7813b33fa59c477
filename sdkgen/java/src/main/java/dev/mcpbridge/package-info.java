/**
 * MCP backends in Java: write methods, the mcpbridge sidecar speaks the protocol. {@link dev.mcpbridge.Bridge} is where to
 * start; {@code dev.mcpbridge.v1} has the messages of the contract, generated.
 */
package dev.mcpbridge;
