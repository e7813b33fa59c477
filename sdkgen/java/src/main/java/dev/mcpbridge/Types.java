package dev.mcpbridge;

import java.io.InputStream;
import java.io.Reader;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.stream.BaseStream;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.DeserializationContext;
import tools.jackson.databind.JavaType;
import tools.jackson.databind.deser.AbstractDeserializer;
import tools.jackson.databind.deser.bean.BeanDeserializerBase;
import tools.jackson.databind.deser.impl.UnsupportedTypeDeserializer;

/** Detects types that cannot be arguments or results. Jackson would report them too, but only during a call. */
final class Types {
  /** Types whose values Jackson cannot access. */
  private static final List<Class<?>> OPAQUE =
      List.of(BaseStream.class, Iterator.class, InputStream.class, Reader.class, Future.class, Thread.class);

  private Types() {}

  /** Returns why JSON cannot be converted to this type, or null if it can. */
  static String unreadable(java.lang.reflect.Type type) {
    return unreadable(Json.MAPPER._deserializationContext(), Json.MAPPER.constructType(type), new HashSet<>());
  }

  private static String unreadable(DeserializationContext context, JavaType type, Set<JavaType> seen) {
    if (type.isPrimitive() || type.isEnumType() || type.getRawClass() == String.class || !seen.add(type)) {
      return null;
    }
    if (type.isContainerType() || type.isReferenceType()) {
      return unreadable(context, type.getContentType(), seen);
    }
    String name = type.getRawClass().getSimpleName();
    try {
      var reader = context.findRootValueDeserializer(type);
      if (reader instanceof AbstractDeserializer || reader instanceof UnsupportedTypeDeserializer) {
        return "JSON cannot be converted to "
            + name
            + "; use text, numbers, boolean, enums, records, classes, lists and maps of these";
      }
      if (reader instanceof BeanDeserializerBase bean) {
        if (!bean.getValueInstantiator().canInstantiate()) {
          return "JSON cannot be converted to "
              + name
              + ", which has no usable constructor; make it a record, or add a constructor without parameters";
        }
        for (var properties = bean.properties(); properties.hasNext(); ) {
          var property = properties.next();
          String why = unreadable(context, property.getType(), seen);
          if (why != null) {
            return name + "." + property.getName() + ": " + why;
          }
        }
      }
      return null;
    } catch (JacksonException e) {
      return e.getOriginalMessage();
    }
  }

  /** Returns why this type cannot be returned, or null if it can. */
  static String unwritable(JavaType type) {
    if (type.getRawClass() == byte[].class) {
      return "it returns byte[]: return new Image(data, mimeType), new Audio(...) or text";
    }
    for (JavaType value = type; value != null; value = value.getContentType()) {
      Class<?> raw = value.getRawClass();
      if (OPAQUE.stream().anyMatch(c -> c.isAssignableFrom(raw))) {
        return "it returns "
            + raw.getSimpleName()
            + ", which JSON cannot represent; return text, a record, a class, a list or map of these, Image or Audio";
      }
    }
    return null;
  }
}
