/**
 * MCP backends in Java: write methods, and the mcpbridge sidecar serves them. {@link dev.mcpbridge.Bridge} is the entry
 * point; {@code dev.mcpbridge.v1} has the generated messages of the contract.
 */
package dev.mcpbridge;
