package dev.mcpbridge;

import java.util.Collection;
import java.util.List;
import java.util.Map;

/**
 * Choices that are known only at run time: values with titles. Users see the titles; the tool receives the values. For
 * fixed choices, use an enum with {@link Title}s.
 *
 * @param <T> the answer: a String, or a list of them
 */
public final class Choice<T> {
  final Schema.Form<T> form;

  private Choice(Schema.Form<T> form) {
    this.form = form;
  }

  /** A single choice: {@code Choice.of(entry("ic", "InterCity"), entry("rj", "Railjet"))}. */
  @SafeVarargs
  @SuppressWarnings("varargs") // The array is not modified.
  public static Choice<String> of(Map.Entry<String, String>... titles) {
    return of(List.of(titles));
  }

  /** A single choice, for example of the entries of a LinkedHashMap. The order must be the same in each round. */
  public static Choice<String> of(Collection<Map.Entry<String, String>> titles) {
    return new Choice<>(Schema.Form.of(titles));
  }

  /** Several choices. */
  @SafeVarargs
  @SuppressWarnings("varargs") // The array is not modified.
  public static Choice<List<String>> listOf(Map.Entry<String, String>... titles) {
    return listOf(List.of(titles));
  }

  /** Several choices, for example of the entries of a LinkedHashMap. The order must be the same in each round. */
  public static Choice<List<String>> listOf(Collection<Map.Entry<String, String>> titles) {
    return new Choice<>(Schema.Form.listOf(titles));
  }
}
