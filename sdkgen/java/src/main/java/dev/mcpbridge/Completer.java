package dev.mcpbridge;

import java.util.Collection;
import java.util.Map;

/** Completes an argument of a prompt or a resource template. */
@FunctionalInterface
public interface Completer {
  /**
   * Returns the proposed values for the text typed so far, best first. {@code others} are the other known arguments.
   */
  Collection<String> complete(String typed, Map<String, String> others) throws Exception;
}
