package dev.mcpbridge;

import dev.mcpbridge.v1.CreateMessageRequest;
import java.util.Map;
import tools.jackson.databind.node.ObjectNode;

/**
 * Questions to the client: to its user, its model, and itself.
 *
 * <p>A question that has no answer yet ends the round: the handler is called again, from the top, when the client has answered,
 * and then the question returns the answer. So what comes before a question is done once a round; wrap in {@link Context#once}
 * what must not be. An answer belongs to its question: if the message or the form changes between rounds, it is asked anew.
 */
public interface Asks {
  /**
   * Asks the user to fill in a form: a record or class whose fields are text, numbers, booleans and enums, or one of these
   * types itself. {@link UnsupportedException} if the client has no forms.
   */
  <T> Answer<T> elicit(String message, Class<T> form);

  /** Asks the user to choose from what is known only now. */
  <T> Answer<T> elicit(String message, Choice<T> choice);

  /** As {@link #elicit(String, Class)}, by the JSON Schema of the form, for what no class can say. The answer is JSON. */
  Answer<ObjectNode> elicitJson(String message, String schema);

  /** Asks the user to visit a web page. Accepted means that they agreed to, not that they are done there. */
  Answer<Void> elicitUrl(String message, String url);

  /** Asks the client's model. Deprecated by MCP 2026-07-28: better call a model's own API. */
  default Sample sample(String prompt) {
    return sample(CreateMessageRequest.newBuilder().addMessages(Message.user(prompt).sampling()).setMaxTokens(1024).build());
  }

  /** As {@link #sample(String)}, with all that can be said. */
  Sample sample(CreateMessageRequest request);

  /**
   * As {@link #sample(CreateMessageRequest)}, with the parameters as MCP has them: {@code Map.of("messages", List.of(Map.of("role",
   * "user", "content", Map.of("type", "text", "text", "Hi"))), "maxTokens", 100)}.
   */
  default Sample sample(Map<String, ?> params) {
    return sample(Mcp.read(params, CreateMessageRequest.newBuilder()).build());
  }

  /** Asks for the folders the client works in. Deprecated by MCP 2026-07-28: better take them as arguments. */
  Roots roots();

  /**
   * Asks by this key: {@code ctx.key("why").elicit("It is " + now + ". Why?", String.class)}. For a question that differs from round to
   * round, and remains the same. Each question needs a key of its own.
   */
  Asks key(String key);
}
