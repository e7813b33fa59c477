package dev.mcpbridge;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Matches URIs against URI templates of RFC 6570, and returns the values of the variables. Level 3 is supported: {@code
 * {a}} and {@code {a,b}}, {@code {+path}}, {@code {#part}}, {@code {.ext}}, {@code {/a,b}}, {@code {;a,b}}, {@code
 * {?a,b}} and {@code {&a,b}}. Level 4, {@code {a:3}} and {@code {a*}}, is not.
 */
final class Template {
  private static final Pattern EXPRESSION = Pattern.compile("\\{([^{}]*)\\}");
  private static final Pattern NAME = Pattern.compile("[A-Za-z][A-Za-z0-9_]*");

  /** The maximum length of a URI. */
  private static final int MAX_URI = 4096;

  /** The end of a piece at a position where it cannot start. */
  private static final int NO_MATCH = -1;

  /**
   * A part of a template: literal text, and an optional value after it. The names are the variables of the value, if
   * any; several only if the value contains names, as in {@code a=1&b=2}. endsAt has the characters that end the value.
   */
  private record Piece(String literal, List<String> names, String endsAt, String separator, boolean mayBeMissing) {}

  final List<String> variables = new ArrayList<>();
  final List<String> optional = new ArrayList<>(); // The optional variables.
  private final List<Piece> pieces = new ArrayList<>();

  /** Throws IllegalArgumentException if the template is invalid or not supported. */
  Template(String template) {
    int end = 0;
    Matcher expression = EXPRESSION.matcher(template);
    while (expression.find()) {
      String literal = template.substring(end, expression.start());
      String text = expression.group(1);
      String operator = text.isEmpty() || "+#./;?&".indexOf(text.charAt(0)) < 0 ? "" : text.substring(0, 1);
      if (literal.isEmpty() && end > 0 && (operator.isEmpty() || operator.equals("+"))) {
        throw new IllegalArgumentException("{" + text + "} must be separated from the variable before it");
      }
      end = expression.end();
      literal(literal);
      List<String> names = new ArrayList<>();
      for (String name : text.substring(operator.length()).split(",", -1)) {
        names.add(name(name, text));
      }
      add(operator, names, template);
    }
    literal(template.substring(end));
  }

  private void add(String operator, List<String> names, String template) {
    Piece last = pieces.isEmpty() ? null : pieces.get(pieces.size() - 1);
    if ("?&;".contains(operator) && !operator.isEmpty()) {
      optional.addAll(names);
      if (operator.equals("&") && last != null && last.separator.equals("&")) {
        last.names.addAll(names); // {?a}{&b} is {?a,b}.
      } else if (operator.equals(";")) {
        pieces.add(new Piece(";", names, "/?#", ";", true));
      } else {
        pieces.add(new Piece(operator, names, "#", "&", true));
      }
      return;
    }
    // {+path} allows reserved characters, but ends where a query may start.
    String path = template.contains("{?") ? "?#" : template.contains("{#") ? "#" : "";
    String between = operator.equals(".") || operator.equals("/") ? operator : ",";
    String endsAt =
        (operator.equals("+") ? path : operator.equals("#") ? "" : "/?#") + (names.size() > 1 ? between : "");
    for (String name : names) {
      String literal = name.equals(names.get(0)) ? operator.replace("+", "") : between;
      if (!literal.isEmpty()) {
        optional.add(name);
      }
      pieces.add(new Piece(literal, List.of(name), endsAt, "", !literal.isEmpty()));
    }
  }

  private void literal(String literal) {
    if (literal.indexOf('{') >= 0 || literal.indexOf('}') >= 0) {
      throw new IllegalArgumentException("unmatched brace");
    }
    if (!literal.isEmpty()) {
      pieces.add(new Piece(literal, List.of(), "", "", false));
    }
  }

  private String name(String name, String expression) {
    if (!NAME.matcher(name).matches()) {
      throw new IllegalArgumentException(
          "{"
              + expression
              + "} cannot be matched; there are {a}, {a,b}, {+path}, {#part}, {.ext}, {/a,b}, {;a,b}, {?a,b} and"
              + " {&a,b}");
    }
    if (variables.contains(name)) {
      throw new IllegalArgumentException("duplicate variable {" + name + "}");
    }
    variables.add(name);
    return name;
  }

  /**
   * Returns the percent-decoded values of the variables, or null if the URI does not match. Matching is greedy, from
   * the first variable on. Values with `..` path segments, such as `../secret`, do not match. The time is linear in the
   * length of the URI.
   */
  Map<String, String> match(String uri) {
    Map<Piece, String> found = uri.length() <= MAX_URI ? find(uri) : null;
    if (found == null) {
      return null;
    }
    Map<String, String> values = new LinkedHashMap<>();
    try {
      found.forEach((piece, value) -> values(piece, value, values));
    } catch (IllegalArgumentException e) {
      return null; // Invalid percent-encoding.
    }
    for (String value : values.values()) {
      if (value.indexOf('\0') >= 0 || List.of(value.split("[/\\\\]", -1)).contains("..")) {
        return null;
      }
    }
    return values;
  }

  private static void values(Piece piece, String value, Map<String, String> into) {
    boolean query = piece.separator.equals("&"); // A plus is a space in queries only.
    String text = query ? value : value.replace("+", "%2B");
    if (piece.separator.isEmpty()) {
      into.put(piece.names.get(0), decode(text));
      return;
    }
    for (String pair : text.split(piece.separator, -1)) {
      int equals = pair.indexOf('=');
      String name = decode(equals < 0 ? pair : pair.substring(0, equals));
      if (piece.names.contains(name)) {
        into.put(name, equals < 0 ? "" : decode(pair.substring(equals + 1)));
      }
    }
  }

  /** Returns the encoded values. */
  private Map<Piece, String> find(String uri) {
    Piece first = pieces.isEmpty() ? null : pieces.get(0);
    if (first != null && !first.mayBeMissing && !uri.startsWith(first.literal)) {
      return null;
    }
    // A regular expression would backtrack. Backward: the end of each piece by its start, if the rest matches.
    Deque<int[]> all = new ArrayDeque<>();
    int[] rest = new int[uri.length() + 1];
    Arrays.fill(rest, NO_MATCH);
    rest[uri.length()] = uri.length();
    for (int i = pieces.size() - 1; i >= 0; i--) {
      rest = ends(pieces.get(i), uri, rest);
      all.push(rest);
    }
    Map<Piece, String> values = new LinkedHashMap<>();
    int at = 0;
    for (Piece piece : pieces) {
      int end = all.pop()[at];
      if (end == NO_MATCH) {
        return null;
      }
      if (!piece.names.isEmpty() && end > at) {
        values.put(piece, uri.substring(at + piece.literal.length(), end));
      }
      at = end;
    }
    return at < uri.length() ? null : values;
  }

  /**
   * Returns the latest end of a piece by its start; the rest must start there. An absent piece ends where it starts.
   */
  private static int[] ends(Piece piece, String uri, int[] rest) {
    int[] values = new int[uri.length() + 1]; // The end of a value by its start.
    int end = NO_MATCH; // The latest end from this position.
    for (int at = uri.length(); at >= 0; at--) {
      boolean canEnd = rest[at] != NO_MATCH;
      if (at < uri.length() && piece.endsAt.indexOf(uri.charAt(at)) >= 0) {
        end = NO_MATCH;
      }
      boolean empty = piece.names.isEmpty() || (end == NO_MATCH && !piece.separator.isEmpty());
      values[at] = empty ? (canEnd ? at : NO_MATCH) : end;
      if (end == NO_MATCH && canEnd) {
        end = at;
      }
    }
    int[] ends = new int[uri.length() + 1];
    for (int at = 0; at <= uri.length(); at++) {
      ends[at] = uri.startsWith(piece.literal, at) ? values[at + piece.literal.length()] : NO_MATCH;
      if (ends[at] == NO_MATCH && piece.mayBeMissing && rest[at] != NO_MATCH) {
        ends[at] = at;
      }
    }
    return ends;
  }

  private static String decode(String value) {
    return URLDecoder.decode(value, StandardCharsets.UTF_8);
  }
}
