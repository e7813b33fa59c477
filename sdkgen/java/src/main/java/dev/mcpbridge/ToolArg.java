package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Describes an argument of a {@link Tool}, a member of a record or class of arguments, or a field of a form. */
@Documented
@Target({ElementType.PARAMETER, ElementType.FIELD})
@Retention(RetentionPolicy.RUNTIME)
public @interface ToolArg {
  /** The description, for the model. */
  String description() default "";

  /**
   * The name of the argument. If empty, the name of the parameter. In records and classes, use Jackson's JsonProperty.
   */
  String name() default "";

  /** Whether the argument is required. An argument with a default, and an {@code Optional}, are not. */
  boolean required() default true;

  /** The default value: text, or for other types JSON, such as {@code 3}. */
  String defaultValue() default "";
}
