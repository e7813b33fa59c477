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
 * URI templates of RFC 6570, backwards: from a URI to the values of the template's variables. There are the kinds that can be
 * told apart again: {@code {name}} (no slash), {@code {+path}} (slashes too) and, at the end, {@code {?a,b}} (each may be
 * missing).
 */
final class Template {
  private static final Pattern EXPRESSION = Pattern.compile("\\{([^{}]*)\\}");
  private static final Pattern NAME = Pattern.compile("[A-Za-z][A-Za-z0-9_]*");

  /** Of a URI that may be matched. */
  private static final int MAX_URI = 4096;

  /** Of a place where a piece cannot begin. */
  private static final int NOWHERE = -1;

  /** Beside the variables, which have other names. */
  private static final String QUERY = "?";

  /** A part of a template: text, or a variable, whose value has at least one character and ends before any of these. */
  private record Piece(String literal, String name, String endsAt) {}

  final List<String> variables = new ArrayList<>();
  final List<String> optional = new ArrayList<>(); // Those of `{?a,b}`.
  private final List<Piece> pieces = new ArrayList<>();

  /** IllegalArgumentException says what is wrong with the template, or of a kind that cannot be matched. */
  Template(String template) {
    int end = 0;
    Matcher expression = EXPRESSION.matcher(template);
    while (expression.find()) {
      String literal = template.substring(end, expression.start());
      String text = expression.group(1);
      if (literal.isEmpty() && end > 0 && !text.startsWith("?")) {
        throw new IllegalArgumentException("there is nothing between {" + text + "} and what is before it");
      }
      end = expression.end();
      literal(literal);
      if (text.startsWith("?")) {
        if (end != template.length()) {
          throw new IllegalArgumentException("{" + text + "} has to be at the end");
        }
        for (String name : text.substring(1).split(",", -1)) {
          optional.add(name(name, text));
        }
      } else {
        boolean slashes = text.startsWith("+");
        // A path ends where a query may begin.
        String endsAt = slashes ? (template.contains("{?") ? "?#" : "") : "/?#";
        pieces.add(new Piece(null, name(slashes ? text.substring(1) : text, text), endsAt));
      }
    }
    literal(template.substring(end));
  }

  private void literal(String literal) {
    if (literal.indexOf('{') >= 0 || literal.indexOf('}') >= 0) {
      throw new IllegalArgumentException("a brace has no partner");
    }
    if (!literal.isEmpty()) {
      pieces.add(new Piece(literal, null, null));
    }
  }

  private String name(String name, String expression) {
    if (!NAME.matcher(name).matches()) {
      throw new IllegalArgumentException(
          "{" + expression + "} cannot be matched; there are {name}, {+path} and, at the end, {?a,b}");
    }
    if (variables.contains(name)) {
      throw new IllegalArgumentException("{" + name + "} is there twice");
    }
    variables.add(name);
    return name;
  }

  /**
   * The variables' values, percent-decoded, or null if the URI is none of the template's. A value is as long as it can be, the first
   * before the others. One that climbs out of a folder, such as `../secret`, is none of the template's. The time it takes grows with
   * the length of the URI, and no faster.
   */
  Map<String, String> match(String uri) {
    Map<String, String> found = uri.length() <= MAX_URI ? find(uri) : null;
    if (found == null) {
      return null;
    }
    Map<String, String> values = new LinkedHashMap<>();
    try {
      String query = found.remove(QUERY);
      found.forEach((name, value) -> values.put(name, decode(value.replace("+", "%2B"))));
      if (query != null) {
        for (String pair : query.split("&", -1)) {
          int equals = pair.indexOf('=');
          String name = decode(equals < 0 ? pair : pair.substring(0, equals));
          if (optional.contains(name)) {
            values.put(name, equals < 0 ? "" : decode(pair.substring(equals + 1)));
          }
        }
      }
    } catch (IllegalArgumentException e) {
      return null; // Bad percent-encoding.
    }
    for (String value : values.values()) {
      if (value.indexOf('\0') >= 0 || List.of(value.split("[/\\\\]", -1)).contains("..")) {
        return null;
      }
    }
    return values;
  }

  /** The variables' values as they stand there, and the query if there is one. */
  private Map<String, String> find(String uri) {
    if (!pieces.isEmpty() && pieces.get(0).literal != null && !uri.startsWith(pieces.get(0).literal)) {
      return null;
    }
    // A regular expression tries all ways to divide a URI. From the end: where each piece ends, if it begins there and the rest fits.
    Deque<int[]> all = new ArrayDeque<>();
    all.push(queries(uri));
    for (int i = pieces.size() - 1; i >= 0; i--) {
      all.push(ends(pieces.get(i), uri, all.peek()));
    }
    Map<String, String> values = new LinkedHashMap<>();
    int at = 0;
    for (Piece piece : pieces) {
      int end = all.pop()[at];
      if (end == NOWHERE) {
        return null;
      }
      if (piece.name != null) {
        values.put(piece.name, uri.substring(at, end));
      }
      at = end;
    }
    if (all.pop()[at] == NOWHERE) {
      return null;
    }
    if (at < uri.length()) {
      values.put(QUERY, uri.substring(at + 1));
    }
    return values;
  }

  /** For each place where a piece can begin, its last end; the rest has to begin there. */
  private static int[] ends(Piece piece, String uri, int[] rest) {
    int[] ends = new int[uri.length() + 1];
    Arrays.fill(ends, NOWHERE);
    if (piece.literal != null) {
      int length = piece.literal.length();
      for (int at = uri.indexOf(piece.literal); at >= 0; at = uri.indexOf(piece.literal, at + 1)) {
        ends[at] = rest[at + length] == NOWHERE ? NOWHERE : at + length;
      }
      return ends;
    }
    int end = NOWHERE;
    for (int at = uri.length() - 1; at >= 0; at--) {
      if (piece.endsAt.indexOf(uri.charAt(at)) >= 0) {
        end = NOWHERE;
      } else {
        end = end == NOWHERE && rest[at + 1] != NOWHERE ? at + 1 : end;
        ends[at] = end;
      }
    }
    return ends;
  }

  /** As ends, of what comes after the pieces: nothing, or a query if the template has one. */
  private int[] queries(String uri) {
    int[] ends = new int[uri.length() + 1];
    Arrays.fill(ends, NOWHERE);
    ends[uri.length()] = uri.length();
    if (!optional.isEmpty()) {
      for (int at = uri.indexOf('?', uri.lastIndexOf('#') + 1); at >= 0; at = uri.indexOf('?', at + 1)) {
        ends[at] = uri.length();
      }
    }
    return ends;
  }

  private static String decode(String value) {
    return URLDecoder.decode(value, StandardCharsets.UTF_8);
  }
}
