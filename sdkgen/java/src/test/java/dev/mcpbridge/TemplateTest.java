package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** From URIs to the values of a template's variables. */
class TemplateTest {
  /** The client says the URI, and one that fits almost must not stop a thread: a regular expression takes minutes. */
  @Test
  void aHostileUriIsLookedAtOnce() {
    Map<String, String> hostile = new LinkedHashMap<>();
    hostile.put("x://{a}.{b}.{c}.{d}!", ".");
    hostile.put("x://{+a}/{+b}/{+c}/{+d}!", "/");
    hostile.put("x://{a}-{b}-{c}-{d}!", "-");
    hostile.put("x://{+a}?{+b}?{+c}{?d}", "?");
    assertTimeoutPreemptively(
        Duration.ofSeconds(2), () -> hostile.forEach((template, c) -> assertNull(new Template(template).match("x://" + c.repeat(4000)), template)));
    assertNull(new Template("{a}").match("a".repeat(5000))); // Longer than any that is looked at.
  }

  @Test
  void valuesAreThoseOfARegularExpression() {
    List<String> parts = List.of("a", "/", "-", "?", "#", "b/");
    Random random = new Random(1);
    for (int round = 0; round < 20_000; round++) {
      int count = 1 + round % 3;
      boolean query = random.nextBoolean();
      StringBuilder template = new StringBuilder("x:");
      StringBuilder pattern = new StringBuilder("x:");
      for (int i = 0; i < count; i++) {
        String literal = parts.get(random.nextInt(parts.size()));
        boolean slashes = random.nextBoolean();
        template.append(literal).append(slashes ? "{+v" : "{v").append(i).append('}');
        pattern.append(Pattern.quote(literal)).append(slashes ? (query ? "([^?#]+)" : "(.+)") : "([^/?#]+)");
      }
      template.append(query ? "{?q}" : "");
      StringBuilder uri = new StringBuilder("x:");
      for (int i = random.nextInt(10); i >= 0; i--) {
        uri.append(parts.get(random.nextInt(parts.size())));
      }
      uri.append(random.nextBoolean() ? "?q=1" : "");
      var found = Pattern.compile(pattern + (query ? "(?:\\?([^#]*))?" : "")).matcher(uri);
      Map<String, String> want = null;
      if (found.matches()) {
        want = new LinkedHashMap<>();
        for (int i = 0; i < count; i++) {
          want.put("v" + i, found.group(i + 1));
        }
        String asked = query ? found.group(count + 1) : null;
        for (String pair : asked == null ? new String[0] : asked.split("&", -1)) {
          if (pair.startsWith("q=")) {
            want.put("q", pair.substring(2));
          }
        }
      }
      assertEquals(want, new Template(template.toString()).match(uri.toString()), template + " of " + uri);
    }
  }
}
