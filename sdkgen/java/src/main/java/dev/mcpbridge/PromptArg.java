package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Describes an argument of a {@link Prompt}, or names a variable of a {@link ResourceTemplate}. */
@Documented
@Target(ElementType.PARAMETER)
@Retention(RetentionPolicy.RUNTIME)
public @interface PromptArg {
  /** The description. */
  String description() default "";

  /** The name of the argument. If empty, the name of the parameter. */
  String name() default "";

  /** Whether the argument is required. An {@code Optional} is not. */
  boolean required() default true;
}
