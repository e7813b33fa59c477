package dev.mcpbridge;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.google.protobuf.ByteString;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.MapperFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** How values are JSON here, everywhere. */
final class Json {
  static final JsonMapper MAPPER =
      JsonMapper.builder()
          // In the order of the source, as people wrote it.
          .disable(MapperFeature.SORT_PROPERTIES_ALPHABETICALLY)
          // No digit is lost.
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          // What is null is not there: so says the schema.
          .changeDefaultPropertyInclusion(i -> i.withValueInclusion(JsonInclude.Include.NON_ABSENT))
          .build();

  private Json() {}

  /** The JSON object of MCP members such as arguments. No bytes are none. */
  static ObjectNode object(ByteString bytes) {
    if (bytes.isEmpty()) {
      return JsonNodeFactory.instance.objectNode();
    }
    if (parse(bytes) instanceof ObjectNode object) {
      return object;
    }
    throw new IllegalArgumentException("it is not a JSON object");
  }

  static JsonNode parse(ByteString bytes) {
    try {
      return MAPPER.readTree(bytes.toByteArray());
    } catch (JacksonException e) {
      throw new IllegalArgumentException("it is not JSON: " + e.getOriginalMessage(), e);
    }
  }

  static ByteString bytes(Object value) {
    return ByteString.copyFrom(MAPPER.writeValueAsBytes(value));
  }

  /** As {@link #bytes}, of whatever it is: what cannot be JSON becomes text. */
  static ByteString anything(Object value) {
    try {
      return bytes(value);
    } catch (JacksonException e) {
      return bytes(String.valueOf(value));
    }
  }
}
