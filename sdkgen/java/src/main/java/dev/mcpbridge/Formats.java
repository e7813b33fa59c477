package dev.mcpbridge;

import com.networknt.schema.ExecutionContext;
import com.networknt.schema.format.Format;
import java.net.URI;
import java.net.URISyntaxException;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import tools.jackson.databind.JsonNode;

/** Formats of strings in JSON Schema. All SDKs accept the same values: sdkgen/testdata/formats.json. */
final class Formats {
  /** Patterns of Java's types without an offset, for which RFC 3339 has no format. */
  static final String LOCAL_TIME = "^[0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,9})?)?$";

  static final String LOCAL_DATE_TIME = "^[0-9]{4}-[0-9]{2}-[0-9]{2}T" + LOCAL_TIME.substring(1);

  private static final Pattern DATE = Pattern.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}");
  private static final Pattern TIME =
      Pattern.compile("([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])");
  private static final Pattern DURATION =
      Pattern.compile("P(?=.)([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+S)?)?)");
  private static final String LABEL = "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  private static final String WORD = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
  private static final Pattern EMAIL = Pattern.compile(WORD + "(\\." + WORD + ")*@(" + LABEL + "\\.)+" + LABEL);
  private static final Pattern HOSTNAME = Pattern.compile(LABEL + "(\\." + LABEL + ")*");
  private static final String BYTE = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  private static final Pattern IPV4 = Pattern.compile(BYTE + "(\\." + BYTE + "){3}");
  private static final Pattern UUID = Pattern.compile("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}");
  private static final Pattern ASCII = Pattern.compile("[\\x21-\\x7e]+");
  private static final Pattern HOST = Pattern.compile("([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*");

  /** A format: its name in JSON Schema, its description for messages, and its check. */
  private record CheckedFormat(String name, String description, Predicate<String> test) implements Format {
    @Override
    public String getName() {
      return name;
    }

    @Override
    public boolean matches(ExecutionContext context, String value) {
      return test.test(value);
    }
  }

  static final List<Format> ALL =
      List.of(
          new CheckedFormat("date", "a date such as 2026-01-31", Formats::isDate),
          new CheckedFormat("time", "a time with an offset such as 14:30:00Z", text -> TIME.matcher(text).matches()),
          new CheckedFormat(
              "date-time", "a date and time with an offset such as 2026-01-31T14:30:00Z", Formats::isDateTime),
          new CheckedFormat(
              "duration", "an ISO 8601 duration such as P1DT12H", text -> DURATION.matcher(text).matches()),
          new CheckedFormat("email", "an email address such as ada@example.com", text -> EMAIL.matcher(text).matches()),
          new CheckedFormat(
              "hostname",
              "a host name such as www.example.com",
              text -> text.length() <= 253 && HOSTNAME.matcher(text).matches()),
          new CheckedFormat("ipv4", "an IPv4 address such as 192.0.2.1", text -> IPV4.matcher(text).matches()),
          new CheckedFormat("ipv6", "an IPv6 address such as 2001:db8::1", Formats::isIpv6),
          new CheckedFormat("uri", "a URI such as https://example.com/a", Formats::isUri),
          new CheckedFormat(
              "uuid", "a UUID such as 123e4567-e89b-12d3-a456-426614174000", text -> UUID.matcher(text).matches()));

  private Formats() {}

  /** Returns the description of a format, or null if it is not supported. */
  static String descriptionOf(String format) {
    return ALL.stream()
        .filter(f -> f.getName().equals(format))
        .map(f -> ((CheckedFormat) f).description())
        .findFirst()
        .orElse(null);
  }

  /** Keywords whose value maps names to schemas. */
  private static final Set<String> NAMED =
      Set.of("properties", "patternProperties", "$defs", "definitions", "dependentSchemas");

  /** Keywords whose value has no schemas. */
  private static final Set<String> VALUES = Set.of("default", "const", "enum", "examples");

  /** Returns the error for the first unsupported format in this schema, or null. */
  static String unknown(JsonNode schema) {
    List<String> names = ALL.stream().map(Format::getName).sorted().toList();
    if (schema.path("format").isString() && !names.contains(schema.get("format").asString())) {
      String format = schema.get("format").asString();
      String close = Names.close(format, names);
      String hint = close == null ? "" : "; did you mean " + close + "?";
      return "there is no format " + format + hint + "; there are " + String.join(", ", names);
    }
    if (schema.isArray()) {
      return schema.valueStream().map(Formats::unknown).filter(Objects::nonNull).findFirst().orElse(null);
    }
    for (var keyword : schema.properties()) {
      JsonNode value = keyword.getValue();
      if (NAMED.contains(keyword.getKey())) {
        for (var one : value.properties()) {
          String wrong = unknown(one.getValue());
          if (wrong != null) {
            return one.getKey() + ": " + wrong;
          }
        }
      } else if (!VALUES.contains(keyword.getKey())) {
        String wrong = unknown(value);
        if (wrong != null) {
          return wrong;
        }
      }
    }
    return null;
  }

  private static boolean isDate(String text) {
    if (!DATE.matcher(text).matches() || text.startsWith("0000")) {
      return false;
    }
    try {
      return LocalDate.parse(text) != null;
    } catch (DateTimeException e) {
      return false;
    }
  }

  private static boolean isDateTime(String text) {
    return text.length() > 11
        && isDate(text.substring(0, 10))
        && text.charAt(10) == 'T'
        && TIME.matcher(text.substring(11)).matches();
  }

  /** Accepts IPv6 addresses of RFC 4291: eight groups, with :: for groups of 0. The last two may be an IPv4 address. */
  private static boolean isIpv6(String text) {
    int gap = text.indexOf("::");
    if (gap < 0) {
      return groups(text) == 8;
    }
    int before = groups(text.substring(0, gap));
    int after = groups(text.substring(gap + 2));
    return before >= 0 && after >= 0 && before + after < 8 && !text.substring(0, gap).contains(".");
  }

  /** Returns the number of groups in a part of an IPv6 address, or -1 if it is invalid. */
  private static int groups(String text) {
    if (text.isEmpty()) {
      return 0;
    }
    String[] parts = text.split(":", -1);
    int count = 0;
    for (int i = 0; i < parts.length; i++) {
      if (i == parts.length - 1 && IPV4.matcher(parts[i]).matches()) {
        count += 2;
      } else if (parts[i].matches("[0-9A-Fa-f]{1,4}")) {
        count++;
      } else {
        return -1;
      }
    }
    return count;
  }

  private static boolean isUri(String text) {
    if (!ASCII.matcher(text).matches()) {
      return false;
    }
    try {
      URI uri = new URI(text);
      String path = uri.getRawPath();
      if (!uri.isAbsolute() || (path != null && (path.contains("[") || path.contains("]")))) {
        return false;
      }
      String authority = uri.getRawAuthority();
      if (authority == null || uri.getHost() != null) {
        return true;
      }
      // java.net.URI accepts any authority as a registry-based one.
      return authority.indexOf(':') < 0 && HOST.matcher(authority).matches();
    } catch (URISyntaxException e) {
      return false;
    }
  }
}
