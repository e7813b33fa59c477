/**
 * Calls tools, resources and prompts in a test, without a bridge and without gRPC. See {@link
 * dev.mcpbridge.testing.Caller}.
 */
package dev.mcpbridge.testing;
