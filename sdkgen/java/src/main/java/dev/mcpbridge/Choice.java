package dev.mcpbridge;

import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * Choices that are known only when the tool runs: values with their titles. Users see the titles, the tool gets the values. Those
 * that are always the same are an enum with {@link Title}s.
 *
 * @param <T> the answer: a String, or a list of them
 */
public final class Choice<T> {
  final Schema.Form<T> form;

  private Choice(Schema.Form<T> form) {
    this.form = form;
  }

  /** One of these: {@code Choice.of(entry("ic", "InterCity"), entry("rj", "Railjet"))}. */
  @SafeVarargs
  @SuppressWarnings("varargs") // Nothing is written to it.
  public static Choice<String> of(Map.Entry<String, String>... titles) {
    return of(List.of(titles));
  }

  /** One of these, for example the entries of a LinkedHashMap. The order has to be the same in each round. */
  public static Choice<String> of(Collection<Map.Entry<String, String>> titles) {
    return new Choice<>(Schema.Form.of(titles));
  }

  /** Any number of these. */
  @SafeVarargs
  @SuppressWarnings("varargs") // Nothing is written to it.
  public static Choice<List<String>> listOf(Map.Entry<String, String>... titles) {
    return listOf(List.of(titles));
  }

  /** Any number of these, for example the entries of a LinkedHashMap. The order has to be the same in each round. */
  public static Choice<List<String>> listOf(Collection<Map.Entry<String, String>> titles) {
    return new Choice<>(Schema.Form.listOf(titles));
  }
}
