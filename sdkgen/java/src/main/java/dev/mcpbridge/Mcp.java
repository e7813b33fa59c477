package dev.mcpbridge;

import com.google.protobuf.ByteString;
import com.google.protobuf.Descriptors.FieldDescriptor;
import com.google.protobuf.Message;
import dev.mcpbridge.v1.JsonField;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.SerializationFeature;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** Converts objects in MCP's format to messages of the contract: {@code {"role": "user", "content": {"type": "text", "text": "Hi"}}}. */
final class Mcp {
  /** Sorts members: the order of Map.of varies, and a question that changes is asked again. */
  private static final JsonMapper SORTED = Json.MAPPER.rebuild().enable(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS).build();

  private Mcp() {}

  /** Fills in a message. The IllegalArgumentException names the invalid member. */
  static <B extends Message.Builder> B read(Map<String, ?> from, B into) {
    fill(into, SORTED.valueToTree(from), "");
    return into;
  }

  private static void fill(Message.Builder into, JsonNode from, String at) {
    var type = into.getDescriptorForType();
    if (!(from instanceof ObjectNode object)) {
      throw wrong(at, "an object, a " + type.getName(), from);
    }
    Map<String, FieldDescriptor> fields = new LinkedHashMap<>();
    type.getFields().forEach(f -> fields.put(option(f).getName().isEmpty() ? f.getJsonName() : option(f).getName(), f));
    String tag = type.getOptions().getExtension(dev.mcpbridge.v1.Json.jsonMessage).getTag();
    if (!tag.isEmpty()) {
      FieldDescriptor chosen = fields.get(object.path(tag).asString(""));
      if (chosen == null) {
        throw wrong(at + "." + tag, "one of " + String.join(", ", fields.keySet()), object.path(tag));
      }
      Message.Builder one = into.newBuilderForField(chosen);
      fill(one, object.deepCopy().without(tag), at);
      into.setField(chosen, one.build());
      return;
    }
    ObjectNode more = JsonNodeFactory.instance.objectNode();
    for (var member : object.properties()) {
      FieldDescriptor field = fields.get(member.getKey());
      JsonNode value = member.getValue();
      String here = at + "." + member.getKey();
      if (field == null || option(field).getExtra()) {
        more.set(member.getKey(), value);
      } else if (!field.isRepeated()) {
        into.setField(field, value(into, field, value, here));
      } else if (value.isArray()) {
        for (int i = 0; i < value.size(); i++) {
          into.addRepeatedField(field, value(into, field, value.get(i), here + "." + i));
        }
      } else {
        into.addRepeatedField(field, value(into, field, value, here));
      }
    }
    if (!more.isEmpty()) {
      into.setField(type.findFieldByName("extra"), Json.text(more));
    }
  }

  private static Object value(Message.Builder into, FieldDescriptor field, JsonNode value, String at) {
    Object made = switch (field.getJavaType()) {
      case MESSAGE -> {
        Message.Builder inner = into.newBuilderForField(field);
        fill(inner, value, at);
        yield inner.build();
      }
      case BYTE_STRING -> base64(value);
      case ENUM -> field.getEnumType().findValueByName(prefix(field) + value.asString("").toUpperCase(Locale.ROOT));
      case STRING -> option(field).getRaw() ? Json.text(value) : value.isString() ? value.asString() : null;
      case BOOLEAN -> value.isBoolean() ? value.asBoolean() : null;
      case DOUBLE -> value.isNumber() ? value.asDouble() : null;
      case LONG -> value.canConvertToLong() ? value.asLong() : null;
      case INT, FLOAT -> null; // There are none.
    };
    if (made == null) {
      throw wrong(at, what(field), value);
    }
    return made;
  }

  private static String prefix(FieldDescriptor field) {
    return field.getEnumType().getName().toUpperCase(Locale.ROOT) + "_";
  }

  private static String what(FieldDescriptor field) {
    return switch (field.getJavaType()) {
      case BYTE_STRING -> "text in base64";
      case ENUM -> "one of "
          + field.getEnumType().getValues().stream()
              .filter(v -> v.getNumber() != 0)
              .map(v -> v.getName().substring(prefix(field).length()).toLowerCase(Locale.ROOT))
              .collect(Collectors.joining(", "));
      case BOOLEAN -> "true or false";
      case DOUBLE, FLOAT -> "a number";
      case LONG, INT -> "a whole number";
      case STRING -> "text";
      case MESSAGE -> "an object";
    };
  }

  private static ByteString base64(JsonNode value) {
    try {
      return value.isString() ? ByteString.copyFrom(Base64.getDecoder().decode(value.asString())) : null;
    } catch (IllegalArgumentException e) {
      return null;
    }
  }

  private static JsonField option(FieldDescriptor field) {
    return field.getOptions().getExtension(dev.mcpbridge.v1.Json.json);
  }

  private static IllegalArgumentException wrong(String at, String what, JsonNode got) {
    return new IllegalArgumentException((at.isEmpty() ? "it" : at.substring(1)) + ": must be " + what + ", got " + got);
  }
}
