package dev.mcpbridge;

import jakarta.validation.constraints.DecimalMax;
import jakarta.validation.constraints.DecimalMin;
import jakarta.validation.constraints.Email;
import jakarta.validation.constraints.Max;
import jakarta.validation.constraints.Min;
import jakarta.validation.constraints.Negative;
import jakarta.validation.constraints.NegativeOrZero;
import jakarta.validation.constraints.NotBlank;
import jakarta.validation.constraints.NotEmpty;
import jakarta.validation.constraints.Pattern;
import jakarta.validation.constraints.Positive;
import jakarta.validation.constraints.PositiveOrZero;
import jakarta.validation.constraints.Size;
import java.lang.annotation.Annotation;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.AnnotatedParameterizedType;
import java.lang.reflect.AnnotatedType;
import java.math.BigDecimal;
import java.util.function.Consumer;
import tools.jackson.databind.node.ObjectNode;

/** Converts Jakarta's constraints of parameters to JSON Schema. victools does the same for fields. */
final class Constraints {
  private Constraints() {}

  static void add(ObjectNode schema, AnnotatedElement e) {
    on(e, Min.class, a -> schema.put("minimum", a.value()));
    on(e, Max.class, a -> schema.put("maximum", a.value()));
    on(e, DecimalMin.class, a -> schema.put(a.inclusive() ? "minimum" : "exclusiveMinimum", new BigDecimal(a.value())));
    on(e, DecimalMax.class, a -> schema.put(a.inclusive() ? "maximum" : "exclusiveMaximum", new BigDecimal(a.value())));
    if (e.isAnnotationPresent(Positive.class)) {
      schema.put("exclusiveMinimum", 0);
    }
    if (e.isAnnotationPresent(PositiveOrZero.class)) {
      schema.put("minimum", 0);
    }
    if (e.isAnnotationPresent(Negative.class)) {
      schema.put("exclusiveMaximum", 0);
    }
    if (e.isAnnotationPresent(NegativeOrZero.class)) {
      schema.put("maximum", 0);
    }
    if (e.isAnnotationPresent(NotEmpty.class) || e.isAnnotationPresent(NotBlank.class)) {
      size(schema, 1, Integer.MAX_VALUE);
    }
    on(e, Size.class, a -> size(schema, a.min(), a.max()));
    if (e.isAnnotationPresent(Email.class)) {
      schema.put("format", "email");
    }
    String pattern = Schema.pattern(e.getAnnotation(Pattern.class), e.getAnnotation(NotBlank.class));
    if (pattern != null) {
      schema.put("pattern", pattern);
    }
  }

  private static <A extends Annotation> void on(AnnotatedElement e, Class<A> type, Consumer<A> add) {
    A a = e.getAnnotation(type);
    if (a != null) {
      add.accept(a);
    }
  }

  /** Adds the constraints of elements, as in {@code List<@NotBlank String>}. */
  static void addNested(ObjectNode schema, AnnotatedType type) {
    if (type instanceof AnnotatedParameterizedType p && p.getAnnotatedActualTypeArguments().length > 0) {
      AnnotatedType[] arguments = p.getAnnotatedActualTypeArguments();
      AnnotatedType last = arguments[arguments.length - 1];
      ObjectNode of =
          schema.get("items") instanceof ObjectNode items
              ? items
              : schema.get("additionalProperties") instanceof ObjectNode values ? values : null;
      if (of != null) {
        add(of, last);
        addNested(of, last);
      }
    }
  }

  private static void size(ObjectNode schema, int min, int max) {
    String of = switch (schema.path("type").asString("")) {
      case "array" -> "Items";
      case "object" -> "Properties";
      default -> "Length";
    };
    if (min > 0) {
      schema.put("min" + of, min);
    }
    if (max < Integer.MAX_VALUE) {
      schema.put("max" + of, max);
    }
  }
}
