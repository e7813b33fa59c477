package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Describes an argument of a {@link Tool}, or of a record or class that holds arguments, or a field of a form. */
@Documented
@Target({ElementType.PARAMETER, ElementType.FIELD})
@Retention(RetentionPolicy.RUNTIME)
public @interface ToolArg {
  /** What it is, for the model. */
  String description() default "";

  /** The argument's name, if it is not the parameter's. In records and classes, Jackson's JsonProperty does this. */
  String name() default "";

  /** Whether the tool cannot do without it. An argument with a default, and an {@code Optional}, are not required. */
  boolean required() default true;

  /** What is taken if it is not given: text, or for other types JSON, such as {@code 3}. */
  String defaultValue() default "";
}
