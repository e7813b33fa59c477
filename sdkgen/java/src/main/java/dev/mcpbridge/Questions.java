package dev.mcpbridge;

import dev.mcpbridge.v1.CreateMessageRequest;
import java.util.Map;
import tools.jackson.databind.node.ObjectNode;

/**
 * Questions to the client, its user and its model.
 *
 * <p>A question without an answer ends the round. With the answer, the handler runs again from the top, and the
 * question returns the answer. Work before a question is therefore repeated in each round; put work that must happen
 * only once into {@link Context#once}. If the message or the form of a question changes between rounds, it is asked
 * again.
 */
public interface Questions {
  /**
   * Asks the user to fill in a form: a record or class whose fields are text, numbers, booleans and enums, or one of
   * these types itself. Throws {@link UnsupportedException} if the client does not support forms.
   */
  <T> Answer<T> elicit(String message, Class<T> form);

  /** Asks the user to choose from values that are known only at run time. */
  <T> Answer<T> elicit(String message, Choice<T> choice);

  /** Like {@link #elicit(String, Class)}, with a JSON Schema for the form. The answer is JSON. */
  Answer<ObjectNode> elicitJson(String message, String schema);

  /** Asks the user to visit a web page. Accepted means that they agreed, not that they have completed it. */
  Answer<Void> elicitUrl(String message, String url);

  /** Asks the client's model. Deprecated by MCP 2026-07-28: call the API of a model instead. */
  default Sample sample(String prompt) {
    return sample(
        CreateMessageRequest.newBuilder().addMessages(Message.user(prompt).sampling()).setMaxTokens(1024).build());
  }

  /** Like {@link #sample(String)}, with all parameters. */
  Sample sample(CreateMessageRequest request);

  /**
   * Like {@link #sample(CreateMessageRequest)}, with parameters in MCP's format: {@code Map.of("messages",
   * List.of(Map.of("role", "user", "content", Map.of("type", "text", "text", "Hi"))), "maxTokens", 100)}.
   */
  Sample sample(Map<String, ?> params);

  /** Requests the root directories of the client. Deprecated by MCP 2026-07-28: take them as arguments instead. */
  Roots roots();

  /**
   * Identifies the next question by this key and not by its text, which may then vary between rounds: {@code
   * ctx.key("why").elicit("It is " + now + ". Why?", String.class)}. Each question needs a different key.
   */
  Questions key(String key);
}
