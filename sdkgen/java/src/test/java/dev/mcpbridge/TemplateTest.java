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
  /** Clients choose the URI: one that almost matches must not block a thread. A regular expression takes minutes. */
  @Test
  void aHostileUriIsMatchedInLinearTime() {
    Map<String, String> hostile = new LinkedHashMap<>();
    hostile.put("x://{a}.{b}.{c}.{d}!", ".");
    hostile.put("x://{+a}/{+b}/{+c}/{+d}!", "/");
    hostile.put("x://{a}-{b}-{c}-{d}!", "-");
    hostile.put("x://{+a}?{+b}?{+c}{?d}", "?");
    hostile.put("x://{/a,b,c}{/d,e,f}!", "/");
    hostile.put("x://{;a}{;b}{;c}!", ";");
    assertTimeoutPreemptively(
        Duration.ofSeconds(20),
        () ->
            hostile.forEach(
                (template, c) -> assertNull(new Template(template).match("x://" + c.repeat(4000)), template)));
    assertNull(new Template("{a}").match("a".repeat(5000))); // Longer than the limit.
  }

  @Test
  void everyKindOfExpressionIsMatched() {
    for (String[] row :
        new String[][] {
          {"x://{a,b}", "x://1,2", "{a=1, b=2}"},
          {"x://{a,b}", "x://1", "{a=1}"},
          {"x://a{/b,c}", "x://a/1/2", "{b=1, c=2}"},
          {"x://a{/b,c}", "x://a/1", "{b=1}"},
          {"x://a{/b,c}", "x://a", "{}"},
          {"x://a{/b,c}", "x://a/1/2/3", "null"},
          {"x://a{/b}", "x://a/..", "null"},
          {"x:a{.ext}", "x:a.tar.gz", "{ext=tar.gz}"},
          {"x:a{.b,c}", "x:a.tar.gz", "{b=tar, c=gz}"},
          {"x:{name}{.ext}", "x:a.gz", "{name=a.gz}"}, // Matching is greedy.
          {"x:{+a,b}/c", "x:1/2,3/c", "{a=1/2, b=3}"},
          {"x:{+path}{#part}", "x:a/b?c#d/e", "{path=a/b?c, part=d/e}"},
          {"x:{a}{#part}", "x:1", "{a=1}"},
          {"x:p{;a,b}/q", "x:p;b=2;c=3;a=%2F+/q", "{b=2, a=/+}"},
          {"x:p{;a,b}/q", "x:p/q", "{}"},
          {"x:p{;a}", "x:p;a=%zz", "null"},
          {"x:p?f=1{&a,b}", "x:p?f=1&b=2+3", "{b=2 3}"},
          {"x:p?f=1{&a,b}", "x:p?f=1", "{}"},
          {"x:p{?a}{&b}", "x:p?b=2&a=1", "{b=2, a=1}"},
          {"x:p{?a}{#b}", "x:p?a=1#2", "{a=1, b=2}"},
          {"x:p{?a}", "x:p?", "{}"},
        }) {
      assertEquals(row[2], String.valueOf(new Template(row[0]).match(row[1])), row[0] + " of " + row[1]);
    }
    assertEquals(List.of("b", "c", "d"), new Template("x:{a,b}{/c}{?d}").optional);
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
