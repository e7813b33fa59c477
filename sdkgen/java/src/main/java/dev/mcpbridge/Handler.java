package dev.mcpbridge;

/** Handles calls of a tool, resource or prompt. It may be called concurrently, and may return a CompletionStage. */
@FunctionalInterface
public interface Handler<A, R> {
  R handle(A arguments, Context ctx) throws Exception;
}
