package dev.mcpbridge;

import java.util.Collection;
import java.util.Map;

/** What proposes values for an argument of a prompt or a resource template. */
@FunctionalInterface
public interface Completer {
  /** The values for what is typed so far, the best first. {@code others} are the other arguments, as far as they are known. */
  Collection<String> complete(String typed, Map<String, String> others) throws Exception;
}
