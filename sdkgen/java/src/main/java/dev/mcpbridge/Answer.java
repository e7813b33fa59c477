package dev.mcpbridge;

import dev.mcpbridge.v1.ElicitResult;
import dev.mcpbridge.v1.InputResponse;
import java.util.Optional;

/**
 * The user's answer.
 *
 * <pre>{@code
 * var answer = ctx.elicit("Which colour?", Colour.class);
 * if (answer.accepted()) {
 *   paint(answer.data());
 * }
 * }</pre>
 */
public final class Answer<T> extends Question {
  private final String message;
  private final Schema.Form<T> form;
  private T data;
  private boolean read;

  Answer(Context ctx, InputResponse response, String message, Schema.Form<T> form) {
    super(ctx, response);
    this.message = message;
    this.form = form;
  }

  /** Reports whether the user filled in the form, or agreed to visit the page. */
  public boolean accepted() {
    return result().getAction().equals("accept");
  }

  /** Reports whether the user declined. */
  public boolean declined() {
    return result().getAction().equals("decline");
  }

  /** Reports whether the user closed the question without an answer. */
  public boolean cancelled() {
    return !accepted() && !declined();
  }

  /** Reports whether the user accepted, and did not answer a yes-or-no question with no. */
  public boolean yes() {
    return accepted() && !Boolean.FALSE.equals(data());
  }

  /**
   * Returns the content of the form. Throws {@link NotAcceptedException}, which the model reads, if the user declined
   * or canceled.
   */
  public T data() {
    if (accepted()) {
      return data;
    }
    throw new NotAcceptedException(
        "the user " + (declined() ? "declined" : "closed the question without an answer") + ": " + message);
  }

  /** Returns the content of the form, or nothing if the user declined or canceled. */
  public Optional<T> optional() {
    return accepted() ? Optional.ofNullable(data) : Optional.empty();
  }

  private ElicitResult result() {
    ElicitResult result = response().getElicit();
    if (!read && form != null && result.getAction().equals("accept")) {
      data = form.parse(result.getContent());
    }
    read = true;
    return result;
  }

  @Override
  void requireAnswer() {
    accepted();
  }
}
