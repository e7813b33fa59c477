package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonProperty;
import dev.mcpbridge.testing.Caller;
import jakarta.validation.constraints.Email;
import jakarta.validation.constraints.Max;
import jakarta.validation.constraints.Min;
import jakarta.validation.constraints.NotBlank;
import jakarta.validation.constraints.Pattern;
import jakarta.validation.constraints.Positive;
import jakarta.validation.constraints.Size;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetDateTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import tools.jackson.databind.JsonNode;

/** Types to JSON Schema, and back. */
@SuppressWarnings("unused") // The methods are called by their names.
class SchemaTest {
  enum Unit {
    METRIC,
    IMPERIAL
  }

  record Point(int x, @ToolArg(description = "upwards") @Min(0) int y) {}

  record Node(String name, List<Node> children) {}

  record Person(
      @NotBlank String name, Optional<Integer> age, @ToolArg(defaultValue = "7") int lucky, @Email String mail) {}

  public static final class Bean {
    @JsonProperty(required = true)
    public String needed;

    public @Size(max = 5) String may;
  }

  static final class All {
    @Tool
    public void none() {}

    @Tool
    public void simple(String s, int i, long l, double d, boolean b, Unit u) {}

    @Tool
    public void boxed(
        Integer i, Optional<String> o, @ToolArg(required = false) String n, @ToolArg(defaultValue = "METRIC") Unit u) {}

    @Tool
    public void limits(
        @Min(1) @Max(14) int days,
        @Size(min = 2, max = 3) String code,
        @Pattern(regexp = "[a-z]+") String word,
        @Positive BigDecimal price) {}

    @Tool
    public void lists(
        @Size(min = 1) List<@NotBlank String> names, Map<String, @Max(9) Integer> counts, int[] numbers) {}

    @Tool
    public void nested(Point point, @ToolArg(description = "Who", name = "who") Person person) {}

    @Tool
    public void recursive(Node tree) {}

    @Tool
    public void bean(Bean bean) {}

    @Tool
    public void others(LocalDate day, byte[] data) {}

    @Tool
    public Point point() {
      return new Point(1, 2);
    }

    @Tool
    public List<Point> points() {
      return List.of(new Point(1, 2));
    }

    @Tool
    public int number() {
      return 7;
    }

    @Tool
    public CompletableFuture<Map<String, Integer>> later() {
      return CompletableFuture.completedFuture(Map.of("a", 1));
    }

    @Tool
    public String text() {
      return "t";
    }

    @Tool
    public Person person() {
      return new Person("Ada", Optional.empty(), 1, null);
    }
  }

  private static final Caller CALLER = new Caller(Bridge.of(new All()));

  private static dev.mcpbridge.v1.Tool tool(String name) {
    return CALLER.tools().stream().filter(t -> t.getName().equals(name)).findFirst().orElseThrow();
  }

  private static void same(String want, String got) {
    assertEquals(Json.MAPPER.readTree(want.replace('\'', '"')).toString(), got);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "none|{}|",
        "simple|{'s':{'type':'string'},'i':{'type':'integer'},'l':{'type':'integer'},'d':{'type':'number'},"
            + "'b':{'type':'boolean'},"
            + "'u':{'type':'string','enum':['METRIC','IMPERIAL']}}|s,i,l,d,b,u",
        "boxed|{'i':{'type':'integer'},'o':{'type':'string'},'n':{'type':'string'},"
            + "'u':{'type':'string','enum':['METRIC','IMPERIAL'],'default':'METRIC'}}|i",
        "limits|{'days':{'type':'integer','minimum':1,'maximum':14},"
            + "'code':{'type':'string','minLength':2,'maxLength':3},"
            + "'word':{'type':'string','pattern':'^(?:[a-z]+)$'},"
            + "'price':{'type':'number','exclusiveMinimum':0}}|days,code,word,price",
        "lists|{'names':{'type':'array','items':{'type':'string','minLength':1,'pattern':'\\\\S'},'minItems':1},"
            + "'counts':{'type':'object','additionalProperties':{'type':'integer','maximum':9}},"
            + "'numbers':{'type':'array','items':{'type':'integer'}}}|names,counts,numbers",
        "nested|{'point':{'type':'object','properties':{'x':{'type':'integer'},"
            + "'y':{'type':'integer','description':'upwards','minimum':0}},'required':['x','y']},"
            + "'who':{'type':'object','properties':{'name':{'type':'string','minLength':1,'pattern':'\\\\S'},"
            + "'age':{'type':'integer'},"
            + "'lucky':{'type':'integer','default':7},'mail':{'type':'string','format':'email'}},"
            + "'required':['name','mail'],'description':'Who'}}|point,who",
        "bean|{'bean':{'type':'object','properties':{'needed':{'type':'string'},'may':{'type':'string','maxLength':5}},"
            + "'required':['needed']}}|bean",
        "others|{'day':{'type':'string','format':'date'},'data':{'type':'string','contentEncoding':'base64'}}|day,data",
      })
  void argumentsHaveASchema(String name, String properties, String required) {
    String list = required == null ? "" : ",'required':['" + required.replace(",", "','") + "']";
    same(
        "{'type':'object','properties':" + properties + list + ",'additionalProperties':false}",
        tool(name).getInputSchema());
  }

  @Test
  void aRecursiveTypeIsADefinition() {
    same(
        "{'type':'object','properties':{'tree':{'$ref':'#/$defs/Node'}},'$defs':{'Node':{'type':'object','properties':"
            + "{'name':{'type':'string'},'children':{'type':'array','items':{'$ref':'#/$defs/Node'}}},"
            + "'required':['name','children']}},'required':['tree'],'additionalProperties':false}",
        tool("recursive").getInputSchema());
    var leaf = Map.of("name", "a", "children", List.of());
    assertTrue(!CALLER.tool("recursive", Map.of("tree", Map.of("name", "r", "children", List.of(leaf)))).isError());
    assertTrue(
        CALLER.tool("recursive", Map.of("tree", Map.of("name", "r"))).text().contains("- tree.children: is required"));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "point|{'type':'object','properties':{'x':{'type':'integer'},"
            + "'y':{'type':'integer','description':'upwards','minimum':0}},"
            + "'required':['x','y']}|{'x':1,'y':2}",
        "points|{'type':'object','properties':{'result':{'type':'array',"
            + "'items':{'type':'object','properties':{'x':{'type':'integer'},"
            + "'y':{'type':'integer','description':'upwards','minimum':0}},'required':['x','y']}}},"
            + "'required':['result']}|{'result':[{'x':1,'y':2}]}",
        "number|{'type':'object','properties':{'result':{'type':'integer'}},'required':['result']}|{'result':7}",
        "later|{'type':'object','additionalProperties':{'type':'integer'}}|{'a':1}",
        "text||",
      })
  void resultsHaveASchema(String name, String schema, String result) {
    if (schema == null) {
      assertTrue(tool(name).getOutputSchema().isEmpty());
      assertEquals("", CALLER.tool(name).structured());
      return;
    }
    same(schema, tool(name).getOutputSchema());
    assertEquals(result.replace('\'', '"'), CALLER.tool(name).structured());
  }

  @Test
  void nullableMembersAreOptional() {
    assertEquals("{\"name\":\"Ada\",\"lucky\":1}", CALLER.tool("person").structured());
    assertTrue(
        tool("person").getOutputSchema().contains("\"required\":[\"name\",\"lucky\"]"), tool("person")::toString);
  }

  record Formatted(@Email String email, LocalDate date, OffsetDateTime dateTime) {}

  /** A format in arguments, written by the author; types and constraints determine the formats of results. */
  @Test
  void formatsAcceptTheValuesOfTheSharedTable() throws IOException {
    JsonNode formats = Json.MAPPER.readTree(Files.readString(Path.of("..", "testdata", "formats.json"))).get("formats");
    assertEquals(
        Formats.ALL.stream().map(f -> f.getName()).sorted().toList(),
        formats.propertyNames().stream().sorted().toList());
    App app = Bridge.app("t", "1");
    for (var format : formats.properties()) {
      String schema =
          "{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"string\",\"format\":\"" + format.getKey() + "\"}}}";
      app.tool(format.getKey()).inputSchema(schema).handle((in, ctx) -> in.get("v").asString());
    }
    Caller caller = new Caller(app);
    List<Executable> all = new ArrayList<>();
    for (var format : formats.properties()) {
      String name = format.getKey();
      for (JsonNode v : format.getValue().get("accepts")) {
        all.add(() -> assertEquals(v.asString(), caller.tool(name, Map.of("v", v.asString())).text(), name));
      }
      for (JsonNode v : format.getValue().get("refuses")) {
        String wrong = "- v: must be " + format.getValue().get("is").asString() + ", got " + v;
        all.add(
            () ->
                assertEquals(
                    wrong,
                    caller.tool(name, Map.of("v", v.asString())).text().lines().skip(1).findFirst().orElse(""),
                    name + " " + v));
      }
    }
    assertAll(all);
  }

  static final class Results {
    @Tool
    public Formatted formatted(String email) {
      return new Formatted(email, LocalDate.of(2026, 1, 31), OffsetDateTime.parse("2026-01-31T14:30:00+02:00"));
    }

    @Tool
    public Map<String, List<@Max(9) Integer>> most(@Max(9) int n) {
      return Map.of("n", List.of(n));
    }

    @Tool
    public LocalDateTime local(LocalDateTime at, LocalTime time, Duration length) {
      return at.with(time).plus(length);
    }

    @Tool
    public Map<String, Object> lost(String what) {
      Map<String, Object> value = new HashMap<>();
      value.put(
          "rows",
          List.of(
              1,
              switch (what) {
                case "NaN" -> Map.of("price", Double.NaN);
                case "float" -> Map.of("price", Float.POSITIVE_INFINITY);
                case "array" -> Map.of("price", new double[] {1, Double.NaN});
                case "floats" -> Map.of("price", new float[] {1, Float.NaN});
                case "optional" -> Map.of("price", OptionalDouble.of(Double.NaN));
                default -> Map.of("price", new Object());
              }));
      return value;
    }
  }

  @Test
  void resultsAreValidatedAgainstTheirSchema() {
    Caller results = new Caller(Bridge.of(new Results()));
    assertEquals(
        "{\"email\":\"ada@example.com\",\"date\":\"2026-01-31\",\"dateTime\":\"2026-01-31T14:30:00+02:00\"}",
        results.tool("formatted", Map.of("email", "ada@example.com")).structured());
    var wrong = results.tool("formatted", Map.of("email", "ada"));
    assertTrue(wrong.isError());
    assertEquals(
        "the tool returned what its output schema does not allow:\n"
            + "- email: must be an email address such as ada@example.com, got \"ada\"",
        wrong.text());
    // Types without an offset have a pattern in place of a format.
    var at = Map.of("at", "2026-01-31T14:30:00", "time", "10:00", "length", "PT1H");
    assertEquals("{\"result\":\"2026-01-31T11:00:00\"}", results.tool("local", at).structured());
    assertTrue(
        results
            .tool("local", Map.of("at", "2026-01-31T14:30:00Z", "time", "10:00", "length", "PT1.5S"))
            .text()
            .contains("- at: "));
    assertTrue(results.tool("most", Map.of("n", 10)).text().endsWith("Usage: most(n: integer <= 9)"));
  }

  @Test
  void anUnknownFormatIsRejectedWithItsLine() {
    String why =
        "there is no format dat; did you mean date?; there are date, date-time, duration, email, hostname, ipv4, ipv6,"
            + " time, uri, uuid";
    String dat = "{\"type\":\"string\",\"format\":\"dat\"}";
    App app = Bridge.app("t", "1");
    for (String schema :
        List.of(
            "{\"type\":\"object\",\"properties\":{\"day\":" + dat + "}}",
            "{\"type\":\"object\",\"properties\":{\"day\":{\"type\":\"array\","
                + "\"items\":{\"anyOf\":[{\"type\":\"null\"},"
                + dat
                + "]}}}}")) {
      var e = assertThrows(DefinitionException.class, () -> app.tool("t").inputSchema(schema));
      int here = StackWalker.getInstance().walk(frames -> frames.findFirst().orElseThrow().getLineNumber()) - 1;
      assertEquals("SchemaTest.java:" + here + ": tool \"t\": day: " + why, e.getMessage());
      app.tool("form" + here + schema.length()).handle((in, ctx) -> ctx.elicitJson("When?", schema).data());
      var asked = new Caller(app).tool("form" + here + schema.length());
      assertTrue(asked.isError());
      assertEquals("the schema of a form: day: " + why, asked.text());
    }
    // Neither a property of this name nor a value is a format.
    String other =
        "{\"properties\":{\"format\":{\"type\":\"string\",\"default\":{\"format\":\"dat\"}}},\"type\":\"object\"}";
    app.tool("other").inputSchema(other).handle((in, ctx) -> "");
  }

  @ParameterizedTest
  @CsvSource({
    "NaN,rows.1.price is NaN",
    "float,rows.1.price is Infinity",
    "array,rows.1.price.1 is NaN",
    "floats,rows.1.price.1 is NaN",
    "optional,rows.1.price is NaN",
    "opaque,rows.1.price is of type Object"
  })
  void whatJsonCannotHoldIsRefusedWithItsPlace(String what, String place) {
    var called = new Caller(Bridge.of(new Results())).tool("lost", Map.of("what", what));
    assertTrue(called.isError());
    assertEquals("the tool returned a value that JSON cannot represent: " + place, called.text());
  }

  static final class Several {
    @Tool
    public void first(@ToolArg(defaultValue = "8") @Max(7) int n) {}

    @Tool
    public void second(java.io.InputStream in) {}

    @Prompt
    public String third(List<Integer> ids) {
      return "";
    }
  }

  @Test
  void allMistakesAreReportedAtOnce() {
    var e = assertThrows(DefinitionException.class, () -> Bridge.of(new Several(), "text"));
    List<String> lines = e.getMessage().lines().toList();
    assertEquals(4, lines.size(), e::getMessage);
    assertTrue(
        lines
            .get(0)
            .matches(
                "SchemaTest\\.java:\\d+: Several\\.first, parameter 1 \\(int n\\):"
                    + " its default value is invalid: .*8.*"),
        lines.get(0));
    assertTrue(lines.get(1).contains("Several.second, parameter 1 (InputStream in)"), lines.get(1));
    assertTrue(lines.get(2).contains("Several.third, parameter 1 (List ids)"), lines.get(2));
    assertTrue(lines.get(3).contains("String has no method with @Tool"), lines.get(3));
  }

  static final class Missing {
    @Tool
    public void primitive(@ToolArg(required = false) int n) {}
  }

  static final class BadDefault {
    @Tool
    public void broken(@ToolArg(defaultValue = "many") int n) {}
  }

  static final class WrongDefault {
    @Tool
    public void wrong(@ToolArg(defaultValue = "[1]") int n) {}
  }

  static final class BadTemplate {
    @ResourceTemplate(uriTemplate = "x://{a}{b}")
    public String two(String a, String b) {
      return a + b;
    }
  }

  static final class OtherVariable {
    @ResourceTemplate(uriTemplate = "x://{a}")
    public String two(String b) {
      return b;
    }
  }

  static final class NoScheme {
    @Resource(uri = "config")
    public String config() {
      return "";
    }
  }

  static final class NoText {
    @Prompt
    public String many(List<Integer> ids) {
      return "";
    }
  }

  @Test
  void aMistakeIsNamed() {
    wrong(new Missing(), "Missing.primitive, parameter 1 (int n): it may be missing, and int has no null");
    wrong(
        new BadDefault(),
        "BadDefault.broken, parameter 1 (int n): tool \"broken\": the default value many is not JSON");
    wrong(new WrongDefault(), "WrongDefault.wrong, parameter 1 (int n): its default value is invalid");
    wrong(
        new BadTemplate(),
        "BadTemplate.two: the template x://{a}{b}: {b} must be separated from the variable before it");
    wrong(new OtherVariable(), "OtherVariable.two, parameter 1 (String b): the template x://{a} has no {b}");
    wrong(new NoScheme(), "NoScheme.config: resource \"config\": a URI begins with a scheme, such as file:///");
    wrong(
        new NoText(),
        "NoText.many, parameter 1 (List ids): text cannot be converted to its type; use String, a number");
    wrong("text", "String has no method with @Tool");
    wrong(All.class, "All.bean: it is not static; add an object: new All(...)");
    var twice = assertThrows(DefinitionException.class, () -> Bridge.of(new All()).add(new All()));
    assertTrue(
        twice.getMessage().lines().allMatch(line -> line.matches(".* is already defined at SchemaTest\\.java:\\d+")),
        twice.getMessage());
    var name = assertThrows(DefinitionException.class, () -> Bridge.app("t", "1").tool("a b").handle((in, ctx) -> ""));
    assertTrue(name.getMessage().contains("1 to 128 letters"), name.getMessage());
  }

  private static void wrong(Object object, String message) {
    var e = assertThrows(DefinitionException.class, () -> Bridge.app("test", "1").add(object));
    assertTrue(e.getMessage().replaceFirst("^SchemaTest\\.java:\\d+: ", "").startsWith(message), e.getMessage());
    assertTrue(e.getMessage().startsWith("SchemaTest.java:"), e.getMessage());
    assertEquals(0, e.getStackTrace().length);
  }

  interface Shape {}

  record Box(Shape shape) {}

  public static final class NoWay {
    private NoWay(int a, int b) {}
  }

  static final class Abstract {
    @Tool
    public void draw(Map<String, List<Optional<Box>>> boxes) {}
  }

  static final class NoConstructor {
    @Tool
    public void go(NoWay way) {}
  }

  static final class Streams {
    @Tool
    public Stream<String> stream() {
      return Stream.of();
    }
  }

  static final class Bytes {
    @Tool
    public byte[] bytes() {
      return new byte[0];
    }
  }

  static final class ReadsNothing {
    @Prompt
    public String prompt(Runnable run) {
      return "";
    }
  }

  @Test
  void aTypeWithoutJsonIsNamed() {
    wrong(
        new Abstract(),
        "Abstract.draw, parameter 1 (Map boxes): Box.shape: JSON cannot be converted to Shape; use text,");
    wrong(
        new NoConstructor(),
        "NoConstructor.go, parameter 1 (NoWay way): JSON cannot be converted to NoWay, which has no usable"
            + " constructor");
    wrong(new Streams(), "Streams.stream: tool \"stream\": it returns Stream, which JSON cannot represent");
    wrong(new Bytes(), "Bytes.bytes: tool \"bytes\": it returns byte[]: return new Image(");
    wrong(new ReadsNothing(), "ReadsNothing.prompt, parameter 1 (Runnable run): JSON cannot be converted to Runnable");
    var e = assertThrows(DefinitionException.class, () -> Bridge.app("t", "1").tool("t").input(Box.class));
    assertTrue(e.getMessage().contains("tool \"t\": Box.shape: JSON cannot be converted to Shape"), e.getMessage());
  }

  @Test
  void theLineOfADefinitionIsNamed() throws Exception {
    int body = 1 + lines().indexOf("      return Stream.of();");
    var annotated = assertThrows(DefinitionException.class, () -> Bridge.app("t", "1").add(new Streams()));
    assertTrue(annotated.getMessage().startsWith("SchemaTest.java:" + body + ": "), annotated.getMessage());
    int here = 2 + lines().indexOf("    int body = 1 + lines().indexOf(\"      return Stream.of();\");");
    assertEquals(here + 3, line(() -> Bridge.app("t", "1").add("nothing")));
    assertEquals(here + 4, line(() -> Bridge.app("t", "1").tool("a b").handle((in, ctx) -> "")));
  }

  private static int line(Executable define) {
    String message = assertThrows(DefinitionException.class, define).getMessage();
    return Integer.parseInt(message.split(":", 3)[1]);
  }

  private static List<String> lines() throws IOException {
    return Files.readAllLines(Path.of("src", "test", "java", "dev", "mcpbridge", "SchemaTest.java"));
  }
}
