package dev.mcpbridge;

import com.fasterxml.classmate.ResolvedType;
import com.fasterxml.jackson.annotation.JsonProperty;
import com.github.victools.jsonschema.generator.CustomDefinition;
import com.github.victools.jsonschema.generator.FieldScope;
import com.github.victools.jsonschema.generator.Option;
import com.github.victools.jsonschema.generator.OptionPreset;
import com.github.victools.jsonschema.generator.SchemaGenerator;
import com.github.victools.jsonschema.generator.SchemaGeneratorConfigBuilder;
import com.github.victools.jsonschema.generator.SchemaVersion;
import com.github.victools.jsonschema.module.jackson.JacksonOption;
import com.github.victools.jsonschema.module.jackson.JacksonSchemaModule;
import com.github.victools.jsonschema.module.jakarta.validation.JakartaValidationModule;
import com.github.victools.jsonschema.module.jakarta.validation.JakartaValidationOption;
import com.google.protobuf.ByteString;
import com.networknt.schema.Error;
import com.networknt.schema.SchemaRegistry;
import com.networknt.schema.dialect.Dialect;
import com.networknt.schema.dialect.Dialects;
import jakarta.validation.constraints.NotBlank;
import jakarta.validation.constraints.Pattern;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Type;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.OffsetTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.ConcurrentHashMap;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JavaType;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectWriter;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** Converts types to JSON Schema, and JSON to values. victools generates the schemas, networknt validates values. */
final class Schema {
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

  /** The formats of types that are strings in JSON: the keyword and its value. */
  private static final Map<Class<?>, String[]> TEXTS =
      Map.of(
          byte[].class, new String[] {"contentEncoding", "base64"},
          LocalDateTime.class, new String[] {"pattern", Formats.LOCAL_DATE_TIME},
          LocalTime.class, new String[] {"pattern", Formats.LOCAL_TIME},
          Duration.class, new String[] {"format", "duration"},
          OffsetTime.class, new String[] {"format", "time"});

  /** The keywords of a schema that assert something about values, beyond their type. */
  private static final List<String> ASSERTIONS =
      List.of(
          "format",
          "pattern",
          "minimum",
          "maximum",
          "exclusiveMinimum",
          "exclusiveMaximum",
          "minLength",
          "maxLength",
          "minItems",
          "maxItems",
          "minProperties",
          "maxProperties");

  private Schema() {}

  // Types.

  /** The use of a schema. */
  enum Use {
    /** Arguments. Members of a record are required unless they are Optional or Nullable. */
    INPUT,
    /** Results. Members that are always present are required. */
    OUTPUT,
    /** Forms. Like INPUT, without references. */
    FORM;

    private static final Map<Use, SchemaGenerator> GENERATORS = new ConcurrentHashMap<>();

    /** Returns the generator, which is created for the first use: that takes a tenth of a second. */
    SchemaGenerator generator() {
      return GENERATORS.computeIfAbsent(this, use -> new SchemaGenerator(use.config().build()));
    }

    private SchemaGeneratorConfigBuilder config() {
      var config = new SchemaGeneratorConfigBuilder(Json.MAPPER, SchemaVersion.DRAFT_2020_12, OptionPreset.PLAIN_JSON);
      config.with(
          new JacksonSchemaModule(
              JacksonOption.FLATTENED_ENUMS_FROM_JSONVALUE, JacksonOption.RESPECT_JSONPROPERTY_REQUIRED));
      config.with(new JakartaValidationModule(JakartaValidationOption.NOT_NULLABLE_FIELD_IS_REQUIRED));
      config.with(Option.MAP_VALUES_AS_ADDITIONAL_PROPERTIES, Option.STANDARD_FORMATS);
      config.without(Option.SCHEMA_VERSION_INDICATOR, Option.NULLABLE_FIELDS_BY_DEFAULT, Option.FLATTENED_OPTIONALS);
      if (this == FORM) {
        config.with(Option.INLINE_ALL_SCHEMAS);
      }
      config.forTypesInGeneral().withPropertySorter((unusedA, unusedB) -> 0); // As in the source.
      config
          .forTypesInGeneral()
          .withCustomDefinitionProvider(
              (type, context) -> {
                String[] keyword = TEXTS.get(type.getErasedType());
                return keyword == null
                    ? null
                    : new CustomDefinition(NODES.objectNode().put("type", "string").put(keyword[0], keyword[1]), true);
              });
      config.forTypesInGeneral().withCustomDefinitionProvider((type, context) -> titledEnum(type.getErasedType()));
      var fields = config.forFields();
      fields.withStringPatternResolver(f -> pattern(f.getAnnotation(Pattern.class), f.getAnnotation(NotBlank.class)));
      fields.withDescriptionResolver(f -> descriptionOf(f.getAnnotation(ToolArg.class)));
      fields.withDefaultResolver(f -> defaultOf(f.getAnnotation(ToolArg.class), f.getType().getErasedType()));
      fields.withRequiredCheck(this::required);
      // An empty Optional is absent and not null, as forms require. Json writes it in the same way.
      fields.withTargetTypeOverridesResolver(Use::optionalValue);
      return config;
    }

    /** Returns the choices of an enum whose constants have titles, or null. */
    private static CustomDefinition titledEnum(Class<?> type) {
      if (!type.isEnum() || Arrays.stream(type.getFields()).noneMatch(f -> f.isAnnotationPresent(Title.class))) {
        return null;
      }
      ObjectNode schema = NODES.objectNode().put("type", "string");
      ArrayNode choices = schema.putArray("oneOf");
      for (Object constant : type.getEnumConstants()) {
        Title title;
        try {
          title = type.getField(((Enum<?>) constant).name()).getAnnotation(Title.class);
        } catch (NoSuchFieldException e) {
          throw new IllegalStateException(e);
        }
        String value = Json.MAPPER.valueToTree(constant).asString();
        choices.add(choice(value, title == null ? value : title.value()));
      }
      return new CustomDefinition(schema, true);
    }

    private static List<ResolvedType> optionalValue(FieldScope field) {
      Class<?> type = field.getType() == null ? null : field.getType().getErasedType();
      if (type == Optional.class) {
        return List.of(field.getTypeParameterFor(Optional.class, 0));
      }
      return type == null || !Schema.isOptional(type)
          ? null
          : List.of(field.getContext().resolve(unwrapOptional(type)));
    }

    private boolean required(FieldScope field) {
      JsonProperty property = field.getAnnotation(JsonProperty.class);
      ToolArg arg = field.getAnnotation(ToolArg.class);
      if ((arg != null && !optional(arg)) || (property != null && property.required())) {
        return true;
      }
      if (this == OUTPUT) {
        return field.getType().isPrimitive();
      }
      boolean may = optional(arg) || (property != null && !property.defaultValue().isEmpty());
      Class<?> owner = field.getDeclaringType().getErasedType();
      return owner.isRecord()
          && !may
          && !Schema.isOptional(field.getDeclaredType().getErasedType())
          && !nullable(owner, field.getName());
    }

    private static boolean nullable(Class<?> owner, String component) {
      return Arrays.stream(owner.getRecordComponents())
          .filter(c -> c.getName().equals(component))
          .anyMatch(
              c -> Schema.nullable(c) || Schema.nullable(c.getAnnotatedType()) || Schema.nullable(c.getAccessor()));
    }
  }

  private static ObjectNode choice(String value, String title) {
    return NODES.objectNode().put("const", value).put("title", title);
  }

  static boolean isOptional(Class<?> type) {
    return type == Optional.class
        || type == OptionalInt.class
        || type == OptionalLong.class
        || type == OptionalDouble.class;
  }

  /** Reports whether e has an annotation named Nullable, of any library. */
  static boolean nullable(AnnotatedElement e) {
    return Arrays.stream(e.getAnnotations()).anyMatch(a -> a.annotationType().getSimpleName().equals("Nullable"));
  }

  private static boolean optional(ToolArg arg) {
    return arg != null && (!arg.required() || !arg.defaultValue().isEmpty());
  }

  private static String descriptionOf(ToolArg arg) {
    return arg == null || arg.description().isEmpty() ? null : arg.description();
  }

  static JsonNode defaultOf(ToolArg arg, Class<?> type) {
    if (arg == null || arg.defaultValue().isEmpty()) {
      return null;
    }
    if (type == String.class || type.isEnum()) {
      return NODES.stringNode(arg.defaultValue());
    }
    try {
      return Json.MAPPER.readTree(arg.defaultValue());
    } catch (JacksonException e) {
      throw new DefinitionException("the default value " + arg.defaultValue() + " is not JSON");
    }
  }

  /** Returns the schema of a type. Its root has the keyword `type`, even if the type is recursive. */
  static ObjectNode of(Type type, Use use) {
    ObjectNode schema;
    synchronized (use) {
      schema = normalize(use.generator().generateSchema(type));
    }
    if (schema.has("$ref") && schema.get("$defs") instanceof ObjectNode defs) {
      String ref = schema.get("$ref").asString();
      String name = ref.substring(ref.lastIndexOf('/') + 1);
      ObjectNode root = ((ObjectNode) defs.get(name)).deepCopy();
      root.set("$defs", defs);
      return root;
    }
    return schema;
  }

  /** Converts default values, which victools adds as objects, to JSON. */
  private static ObjectNode normalize(ObjectNode schema) {
    return (ObjectNode) Json.MAPPER.readTree(schema.toString());
  }

  // Parameters, which victools does not read.

  /** A parameter of a method that is an argument of the tool. */
  record Parameter(String name, java.lang.reflect.Parameter parameter, ToolArg arg) {
    boolean required() {
      Class<?> type = parameter.getType();
      return !optional(arg) && !isOptional(type) && !nullable(parameter) && !nullable(parameter.getAnnotatedType());
    }
  }

  /** Returns the schema of an object with these parameters as members. */
  static ObjectNode of(List<Parameter> parameters) {
    ObjectNode schema = NODES.objectNode().put("type", "object");
    ObjectNode properties = schema.putObject("properties");
    ArrayNode required = NODES.arrayNode();
    synchronized (Use.INPUT) {
      var builder = Use.INPUT.generator().buildMultipleSchemaDefinitions();
      for (Parameter p : parameters) {
        properties.set(p.name(), builder.createSchemaReference(unwrapOptional(p.parameter().getParameterizedType())));
      }
      ObjectNode defs = builder.collectDefinitions("$defs");
      if (!defs.isEmpty()) {
        schema.set("$defs", defs);
      }
    }
    schema = normalize(schema);
    properties = (ObjectNode) schema.get("properties");
    for (Parameter p : parameters) {
      ObjectNode property = (ObjectNode) properties.get(p.name());
      if (descriptionOf(p.arg()) != null) {
        property.put("description", p.arg().description());
      }
      JsonNode value = defaultOf(p.arg(), p.parameter().getType());
      if (value != null) {
        property.set("default", value);
      }
      Constraints.add(property, p.parameter());
      Constraints.addNested(property, p.parameter().getAnnotatedType());
      if (p.required()) {
        required.add(p.name());
      }
    }
    if (!required.isEmpty()) {
      schema.set("required", required);
    }
    return schema;
  }

  private static Type unwrapOptional(Type type) {
    JavaType t = Json.MAPPER.constructType(type);
    if (t.getRawClass() == Optional.class) {
      return ((java.lang.reflect.ParameterizedType) type).getActualTypeArguments()[0];
    }
    return t.getRawClass() == OptionalInt.class
        ? Integer.class
        : t.getRawClass() == OptionalLong.class
            ? Long.class
            : t.getRawClass() == OptionalDouble.class ? Double.class : type;
  }

  /** Converts a pattern of Jakarta, which matches a whole string, to one of JSON Schema, which matches a part. */
  static String pattern(Pattern pattern, NotBlank notBlank) {
    return pattern != null ? "^(?:" + pattern.regexp() + ")$" : notBlank != null ? "\\S" : null;
  }

  // Arguments.

  /** The arguments of a tool: their schema, and their conversion to values. */
  static final class Arguments {
    final ObjectNode schema;
    private final String name;
    private final String usage;
    private final ObjectNode properties;
    private final List<String> names;
    private final List<String> required = new ArrayList<>();
    private final Defaults defaults;
    private final Check check;

    Arguments(String name, ObjectNode schema, boolean closed) {
      this.name = name;
      this.schema = schema;
      if (closed && !schema.has("additionalProperties")) {
        // Unknown arguments are an error: a misspelled optional argument would be ignored.
        schema.put("additionalProperties", false);
      }
      this.properties = schema.get("properties") instanceof ObjectNode p ? p : NODES.objectNode();
      this.names = List.copyOf(properties.propertyNames());
      if (schema.get("required") instanceof ArrayNode list) {
        list.forEach(n -> required.add(n.asString()));
      }
      this.usage = usage();
      this.check = new Check(schema);
      this.defaults = new Defaults(schema);
    }

    /** Returns the validated arguments with defaults. The ToolException names all errors. */
    ObjectNode parse(ByteString json) {
      ObjectNode arguments;
      try {
        arguments = Json.object(json);
      } catch (IllegalArgumentException e) {
        throw invalid("- (all): " + e.getMessage());
      }
      if (arguments.size() > 0) {
        // Models write null for absent arguments.
        arguments
            .properties()
            .removeIf(e -> e.getValue().isNull() && names.contains(e.getKey()) && !required.contains(e.getKey()));
      }
      String violations = check.list(arguments, names);
      if (violations != null) {
        throw invalid(violations);
      }
      defaults.fill(arguments);
      return arguments;
    }

    /** Returns the violation of its schema by the default value of an argument, or null. */
    String defaultViolation(String field) {
      ObjectNode singleField = NODES.objectNode().put("type", "object");
      singleField.putObject("properties").set(field, properties.get(field));
      if (schema.has("$defs")) {
        singleField.set("$defs", schema.get("$defs"));
      }
      String violations =
          new Check(singleField).list(NODES.objectNode().set(field, properties.get(field).get("default")), List.of());
      return violations == null ? null : violations.replace("- " + field + ": ", "");
    }

    /** Returns the error for an argument that conforms to the schema and that Jackson cannot convert. */
    ToolException conversionError(String field, JacksonException e) {
      return invalid("- " + (field == null ? "(all)" : field) + ": " + e.getOriginalMessage());
    }

    private ToolException invalid(String lines) {
      return new ToolException(name + ": the arguments are invalid.\n" + lines + "\nUsage: " + usage);
    }

    private String usage() {
      List<String> parts = new ArrayList<>();
      properties.forEachEntry(
          (field, s) -> {
            String rest = s.has("default") ? " = " + s.get("default") : required.contains(field) ? "" : " = ...";
            parts.add(field + ": " + type(s) + rest);
          });
      return name + "(" + String.join(", ", parts) + ")";
    }

    private static String type(JsonNode s) {
      if (s.has("const")) {
        return s.get("const").toString();
      }
      for (String union : List.of("enum", "anyOf", "oneOf")) {
        if (s.get(union) instanceof ArrayNode choices) {
          return String.join(
              " | ", choices.valueStream().map(c -> union.equals("enum") ? c.toString() : type(c)).toList());
        }
      }
      if (s.has("$ref")) {
        String ref = s.get("$ref").asString();
        return ref.substring(ref.lastIndexOf('/') + 1);
      }
      String type = s.path("type").asString("any");
      if (type.equals("array")) {
        String items = type(s.path("items"));
        return (items.contains(" | ") ? "(" + items + ")" : items) + "[]";
      }
      String format = s.path("format").asString("");
      return Formats.descriptionOf(format) != null ? format : type + bounds(s);
    }

    /** Returns the bounds of a number, to be written after its type: " 1..14", " > 0". */
    private static String bounds(JsonNode s) {
      if (s.has("minimum") && s.has("maximum")) {
        return " " + s.get("minimum") + ".." + s.get("maximum");
      }
      StringBuilder text = new StringBuilder();
      for (String[] bound :
          new String[][] {{">=", "minimum"}, {">", "exclusiveMinimum"}, {"<=", "maximum"}, {"<", "exclusiveMaximum"}}) {
        if (s.has(bound[1])) {
          text.append(' ').append(bound[0]).append(' ').append(s.get(bound[1]));
        }
      }
      return text.toString();
    }
  }

  /** Sets absent members to the defaults of their schemas, at any depth. Jackson would use 0. */
  private static final class Defaults {
    private final ObjectNode root;
    private final boolean any;

    Defaults(ObjectNode schema) {
      root = schema;
      any = !schema.findValues("default").isEmpty();
    }

    void fill(ObjectNode value) {
      if (any) {
        fill(root, value);
      }
    }

    private void fill(JsonNode schema, JsonNode value) {
      if (schema.has("$ref")) {
        String ref = schema.get("$ref").asString();
        fill(ref.equals("#") ? root : root.at(ref.substring(1)), value);
      } else if (value instanceof ObjectNode object) {
        for (var property : schema.path("properties").properties()) {
          JsonNode inner = property.getValue();
          if (object.has(property.getKey())) {
            fill(inner, object.get(property.getKey()));
          } else if (inner.has("default")) {
            object.set(property.getKey(), inner.get("default"));
          }
        }
        if (schema.get("additionalProperties") instanceof ObjectNode values) {
          object.properties().forEach(e -> fill(values, e.getValue()));
        }
      } else if (value instanceof ArrayNode array && schema.has("items")) {
        array.forEach(item -> fill(schema.get("items"), item));
      }
    }
  }

  /** Validates values. The schema is compiled for the first value, so that programs with many tools start faster. */
  private static final class Check {
    private static final class Registry {
      static final SchemaRegistry DRAFT_2020_12 =
          SchemaRegistry.withDefaultDialect(Dialect.builder(Dialects.getDraft202012()).formats(Formats.ALL).build());
    }

    private final ObjectNode source;
    private volatile com.networknt.schema.Schema schema;

    Check(ObjectNode schema) {
      source = schema;
    }

    private com.networknt.schema.Schema schema() {
      com.networknt.schema.Schema compiled = schema;
      if (compiled == null) {
        compiled = Registry.DRAFT_2020_12.getSchema(enums(source.deepCopy()));
        compiled.initializeValidators();
        schema = compiled;
      }
      return compiled;
    }

    /** Converts choices with titles to an enum, for which a single error names all choices. */
    private static JsonNode enums(JsonNode schema) {
      schema.forEach(Check::enums);
      for (String union : List.of("oneOf", "anyOf")) {
        if (schema instanceof ObjectNode object
            && !object.has("enum")
            && object.get(union) instanceof ArrayNode choices
            && choices.valueStream().allMatch(c -> c.has("const") && c.has("title") && c.size() == 2)) {
          object.remove(union);
          ArrayNode values = object.putArray("enum");
          choices.forEach(c -> values.add(c.get("const")));
        }
      }
      return schema;
    }

    /** Returns a line for each violation: the field, the expected value and the actual one. Null if there is none. */
    String list(JsonNode value, List<String> names) {
      List<Error> errors =
          schema().validate(value, context -> context.executionConfig(c -> c.formatAssertionsEnabled(true)));
      if (errors.isEmpty()) {
        return null;
      }
      return String.join("\n", errors.stream().map(e -> line(e, names)).distinct().toList());
    }

    private static String line(Error e, List<String> names) {
      List<String> path = new ArrayList<>();
      var at = e.getInstanceLocation();
      for (int i = 0; i < at.getNameCount(); i++) {
        path.add(at.getName(i));
      }
      String what;
      switch (e.getKeyword()) {
        case "required" -> {
          path.add(e.getProperty());
          what = "is required";
        }
        case "additionalProperties" -> {
          String close = path.isEmpty() ? Names.close(e.getProperty(), names) : null;
          path.add(e.getProperty());
          what = "does not exist" + (close == null ? "" : "; did you mean " + close + "?");
        }
        default -> {
          String message = e.getMessage();
          String got = String.valueOf(e.getInstanceNode());
          String prefix = at + ": ";
          String is = e.getKeyword().equals("format") ? Formats.descriptionOf(e.getSchemaNode().asString()) : null;
          what =
              (is != null ? "must be " + is : message.startsWith(prefix) ? message.substring(prefix.length()) : message)
                  + ", got "
                  + (got.length() <= 80 ? got : got.substring(0, 80) + " ...");
        }
      }
      return "- " + (path.isEmpty() ? "(all)" : String.join(".", path)) + ": " + what;
    }
  }

  // Results.

  /** Writes values of a return type. Structured content is an object, so other values become `{"result": value}`. */
  record Output(String schema, ObjectWriter writer, boolean wrap, Check check) {
    static Output of(Type type) {
      ObjectNode schema = Schema.of(type, Use.OUTPUT);
      Check check =
          ASSERTIONS.stream().anyMatch(keyword -> !schema.findValues(keyword).isEmpty())
              ? new Check(schema.deepCopy())
              : null;
      return of(type, schema, check);
    }

    private static Output of(Type type, ObjectNode written, Check check) {
      ObjectNode schema = written;
      boolean wrap = !schema.path("type").asString("").equals("object");
      if (wrap) {
        JsonNode defs = schema.remove("$defs");
        ObjectNode root = NODES.objectNode().put("type", "object");
        root.putObject("properties").set("result", schema);
        root.putArray("required").add("result");
        if (defs != null) {
          root.set("$defs", defs);
        }
        schema = root;
      }
      return new Output(Json.text(schema), Json.MAPPER.writerFor(Json.MAPPER.constructType(type)), wrap, check);
    }

    /** Returns the JSON of a value. Throws IllegalStateException if it is invalid or JSON cannot represent it. */
    byte[] write(Object value) {
      byte[] json = Json.write("the tool", value, writer);
      String violations = check == null ? null : check.list(Json.MAPPER.readTree(json), List.of());
      if (violations != null) {
        throw new IllegalStateException("the tool returned what its output schema does not allow:\n" + violations);
      }
      return json;
    }
  }

  // Forms.

  private static final Map<Class<?>, Form<?>> FORMS = new ConcurrentHashMap<>();
  private static final List<String> PRIMITIVES = List.of("string", "number", "integer", "boolean");

  /** The form of a question: its schema, and the conversion of its content. */
  static final class Form<T> {
    final String schema;
    private final JavaType type;
    private final boolean object;
    private final Check check;
    private final Defaults defaults;

    private Form(Type type, ObjectNode of, boolean object) {
      this.type = Json.MAPPER.constructType(type);
      this.object = object;
      this.schema = Json.text(of);
      this.check = new Check(of);
      this.defaults = new Defaults(of);
    }

    /** Returns the form for a single value. */
    private static ObjectNode singleField(ObjectNode value) {
      ObjectNode root = NODES.objectNode().put("type", "object");
      root.putObject("properties").set("value", value);
      root.putArray("required").add("value");
      return root;
    }

    private static Form<?> create(Class<?> type) {
      ObjectNode of;
      try {
        of = Schema.of(type, Use.FORM);
      } catch (StackOverflowError e) {
        throw new IllegalArgumentException("a form cannot ask for " + type.getSimpleName() + ", which contains itself");
      }
      boolean object = of.path("type").asString("").equals("object");
      if (!object) {
        of = singleField(of);
      }
      for (var field : of.path("properties").properties()) {
        JsonNode s = field.getValue();
        if (s.path("items").get("oneOf") instanceof ArrayNode choices) {
          ((ObjectNode) s).putObject("items").set("anyOf", choices); // The schema of MCP for multiple choices.
        }
        boolean choices =
            s.path("type").asString("").equals("array")
                && (s.path("items").has("enum") || s.path("items").has("anyOf"));
        if (!PRIMITIVES.contains(s.path("type").asString("")) && !choices) {
          throw new IllegalArgumentException(
              "a form cannot ask for \"" + field.getKey() + "\" of " + type.getSimpleName()
                  + ": its fields are String, numbers, boolean, enums, or a list of an enum");
        }
      }
      return new Form<>(type, of, object);
    }

    /** Returns the form of a JSON Schema. Throws IllegalArgumentException if it is invalid. */
    static Form<ObjectNode> of(String schema) {
      if (!(Json.parse(schema) instanceof ObjectNode of)) {
        throw new IllegalArgumentException("the schema of a form is a JSON object");
      }
      String unknown = Formats.unknown(of);
      if (unknown != null) {
        throw new IllegalArgumentException("the schema of a form: " + unknown);
      }
      return new Form<>(ObjectNode.class, of, true);
    }

    /** Returns the form for one of these values, by title. */
    static Form<String> of(Collection<Map.Entry<String, String>> titles) {
      ObjectNode of = NODES.objectNode().put("type", "string");
      of.set("oneOf", choices(titles));
      return new Form<>(String.class, singleField(of), false);
    }

    /** Returns the form for any number of these values, by title. */
    static Form<List<String>> listOf(Collection<Map.Entry<String, String>> titles) {
      ObjectNode of = NODES.objectNode().put("type", "array");
      of.putObject("items").set("anyOf", choices(titles));
      return new Form<>(
          Json.MAPPER.getTypeFactory().constructCollectionType(List.class, String.class), singleField(of), false);
    }

    private static ArrayNode choices(Collection<Map.Entry<String, String>> titles) {
      if (titles.isEmpty()) {
        throw new IllegalArgumentException("there is nothing to choose from");
      }
      ArrayNode choices = NODES.arrayNode();
      titles.forEach(t -> choices.add(choice(t.getKey(), t.getValue())));
      return choices;
    }

    @SuppressWarnings("unchecked") // Values have the type of their class.
    static <T> Form<T> of(Class<T> type) {
      return (Form<T>) FORMS.computeIfAbsent(type, Form::create);
    }

    T parse(String content) {
      try {
        ObjectNode value = Json.object(content);
        String violations = check.list(value, List.of());
        if (violations != null) {
          throw new InvalidAnswerException("the answer violates the schema of the form:\n" + violations);
        }
        defaults.fill(value);
        return Json.MAPPER.treeToValue(object ? value : value.get("value"), type);
      } catch (JacksonException e) {
        throw new InvalidAnswerException("the answer violates the schema of the form: " + e.getOriginalMessage());
      } catch (IllegalArgumentException e) {
        throw new InvalidAnswerException("the answer is invalid: " + e.getMessage());
      }
    }
  }
}
