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
  /** What it is. */
  String description() default "";

  /** The argument's name, if it is not the parameter's. */
  String name() default "";

  /** Whether the prompt cannot do without it. An {@code Optional} is not required. */
  boolean required() default true;
}
