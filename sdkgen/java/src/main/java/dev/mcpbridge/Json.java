package dev.mcpbridge;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.google.protobuf.ByteString;
import java.util.OptionalDouble;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import tools.jackson.core.JacksonException;
import tools.jackson.core.JsonGenerator;
import tools.jackson.databind.DatabindException;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.MapperFeature;
import tools.jackson.databind.ObjectWriter;
import tools.jackson.databind.SerializationContext;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.ValueSerializer;
import tools.jackson.databind.exc.InvalidDefinitionException;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.module.SimpleModule;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** Converts values to JSON and back. */
final class Json {
  static final JsonMapper MAPPER =
      JsonMapper.builder()
          // In the order of the source.
          .disable(MapperFeature.SORT_PROPERTIES_ALPHABETICALLY)
          // Keep every digit.
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          // An object without properties is a mistake.
          .enable(SerializationFeature.FAIL_ON_EMPTY_BEANS)
          .addModule(numbers())
          // Null members are absent, as in the schema.
          .changeDefaultPropertyInclusion(i -> i.withValueInclusion(JsonInclude.Include.NON_ABSENT))
          .build();

  private Json() {}

  /** Rejects NaN and infinities, which Jackson would write as strings. */
  private static SimpleModule numbers() {
    return new SimpleModule()
        .addSerializer(Double.class, new Finite<>(Double::doubleValue))
        .addSerializer(double.class, new Finite<>(Double::doubleValue))
        .addSerializer(Float.class, new Finite<>(Float::doubleValue))
        .addSerializer(float.class, new Finite<>(Float::doubleValue))
        .addSerializer(double[].class, new FiniteArray())
        .addSerializer(float[].class, new FiniteFloats())
        .addSerializer(OptionalDouble.class, new FiniteOptional());
  }

  private static final class Finite<T extends Number> extends ValueSerializer<T> {
    private final ToDoubleFunction<T> of;

    Finite(ToDoubleFunction<T> of) {
      this.of = of;
    }

    @Override
    public void serialize(T value, JsonGenerator out, SerializationContext context) {
      if (!Double.isFinite(of.applyAsDouble(value))) {
        throw DatabindException.from(out, String.valueOf(value));
      }
      if (value instanceof Float f) {
        out.writeNumber(f.floatValue());
      } else {
        out.writeNumber(value.doubleValue());
      }
    }
  }

  private static final class FiniteArray extends ValueSerializer<double[]> {
    @Override
    public void serialize(double[] values, JsonGenerator out, SerializationContext context) {
      for (int i = 0; i < values.length; i++) {
        if (!Double.isFinite(values[i])) {
          throw DatabindException.from(out, String.valueOf(values[i])).prependPath(values, i);
        }
      }
      out.writeArray(values, 0, values.length);
    }
  }

  private static final class FiniteFloats extends ValueSerializer<float[]> {
    @Override
    public void serialize(float[] values, JsonGenerator out, SerializationContext context) {
      out.writeStartArray(values, values.length);
      for (int i = 0; i < values.length; i++) {
        if (!Float.isFinite(values[i])) {
          throw DatabindException.from(out, String.valueOf(values[i])).prependPath(values, i);
        }
        out.writeNumber(values[i]);
      }
      out.writeEndArray();
    }
  }

  private static final class FiniteOptional extends ValueSerializer<OptionalDouble> {
    @Override
    public boolean isEmpty(SerializationContext context, OptionalDouble value) {
      return value.isEmpty();
    }

    @Override
    public void serialize(OptionalDouble value, JsonGenerator out, SerializationContext context) {
      context.writeValue(out, value.isPresent() ? value.getAsDouble() : null);
    }
  }

  /** Returns the JSON of a value. The IllegalStateException names the path of a value that JSON cannot represent. */
  static byte[] write(String source, Object value, ObjectWriter writer) {
    try {
      return writer.writeValueAsBytes(value);
    } catch (JacksonException e) {
      String at =
          e.getPath().stream()
              .map(r -> r.getPropertyName() != null ? r.getPropertyName() : String.valueOf(r.getIndex()))
              .collect(Collectors.joining("."));
      // The cause is the exception of the application, if any, without frames of Jackson.
      throw new IllegalStateException(
          source + " returned a value that JSON cannot represent: " + (at.isEmpty() ? "" : at + " is ") + reason(e),
          e.getCause());
    }
  }

  private static String reason(JacksonException e) {
    if (e instanceof InvalidDefinitionException opaque && opaque.getType() != null) {
      return "of type " + opaque.getType().getRawClass().getSimpleName();
    }
    return e.getOriginalMessage();
  }

  /** Parses a JSON object, such as MCP _meta. Empty text is an empty object. */
  static ObjectNode object(String json) {
    return json.isEmpty() ? JsonNodeFactory.instance.objectNode() : object(parse(json));
  }

  /** Parses a JSON object, such as arguments. No bytes are an empty object. */
  static ObjectNode object(ByteString json) {
    return json.isEmpty()
        ? JsonNodeFactory.instance.objectNode()
        : object(read(() -> MAPPER.readTree(json.toByteArray())));
  }

  private static ObjectNode object(JsonNode value) {
    if (value instanceof ObjectNode object) {
      return object;
    }
    throw new IllegalArgumentException("it is not a JSON object");
  }

  static JsonNode parse(String json) {
    return read(() -> MAPPER.readTree(json));
  }

  private static JsonNode read(Supplier<JsonNode> read) {
    try {
      return read.get();
    } catch (JacksonException e) {
      throw new IllegalArgumentException("it is not JSON: " + e.getOriginalMessage(), e);
    }
  }

  static String text(Object value) {
    return MAPPER.writeValueAsString(value);
  }

  /**
   * Like {@link #text}, with the entries of maps sorted: the order of Map.of varies, and a question that changes is
   * asked again.
   */
  static String sorted(Object value) {
    return MAPPER.writer().with(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS).writeValueAsString(value);
  }

  /** Like {@link #text}, for any value: a value that JSON cannot represent becomes a string. */
  static String lenient(Object value) {
    try {
      return text(value);
    } catch (JacksonException e) {
      return text(String.valueOf(value));
    }
  }
}
