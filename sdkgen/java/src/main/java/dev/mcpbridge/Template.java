package dev.mcpbridge;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
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

  /** Of a URI that may be matched: what a pattern can take grows faster than that. */
  private static final int MAX_URI = 4096;

  final List<String> variables = new ArrayList<>();
  final List<String> optional = new ArrayList<>(); // Those of `{?a,b}`.
  private final int inPath;
  private final Pattern pattern;

  /** IllegalArgumentException says what is wrong with the template, or of a kind that cannot be matched. */
  Template(String template) {
    StringBuilder regex = new StringBuilder();
    int end = 0;
    Matcher expression = EXPRESSION.matcher(template);
    while (expression.find()) {
      String literal = template.substring(end, expression.start());
      String text = expression.group(1);
      if (literal.isEmpty() && end > 0 && !text.startsWith("?")) {
        throw new IllegalArgumentException("there is nothing between {" + text + "} and what is before it");
      }
      end = expression.end();
      regex.append(literal(literal));
      if (text.startsWith("?")) {
        if (end != template.length()) {
          throw new IllegalArgumentException("{" + text + "} has to be at the end");
        }
        for (String name : text.substring(1).split(",", -1)) {
          optional.add(name(name, text));
        }
      } else {
        boolean slashes = text.startsWith("+");
        name(slashes ? text.substring(1) : text, text);
        // A path ends where a query may begin.
        regex.append(slashes ? (template.contains("{?") ? "([^?#]+)" : "(.+)") : "([^/?#]+)");
      }
    }
    regex.append(literal(template.substring(end)));
    inPath = variables.size() - optional.size();
    pattern = Pattern.compile(regex + (optional.isEmpty() ? "" : "(?:\\?([^#]*))?"), Pattern.DOTALL);
  }

  private static String literal(String literal) {
    if (literal.indexOf('{') >= 0 || literal.indexOf('}') >= 0) {
      throw new IllegalArgumentException("a brace has no partner");
    }
    return literal.isEmpty() ? "" : Pattern.quote(literal);
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
   * The variables' values, percent-decoded, or null if the URI is none of the template's. A value that climbs out of a folder,
   * such as `../secret`, is none of the template's.
   */
  Map<String, String> match(String uri) {
    Matcher found = pattern.matcher(uri);
    if (uri.length() > MAX_URI || !found.matches()) {
      return null;
    }
    Map<String, String> values = new LinkedHashMap<>();
    try {
      for (int i = 0; i < inPath; i++) {
        values.put(variables.get(i), decode(found.group(i + 1).replace("+", "%2B")));
      }
      if (!optional.isEmpty() && found.group(inPath + 1) != null) {
        for (String pair : found.group(inPath + 1).split("&", -1)) {
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

  private static String decode(String value) {
    return URLDecoder.decode(value, StandardCharsets.UTF_8);
  }
}
