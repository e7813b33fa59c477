package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Registers a method as a prompt. It returns text, a {@link Message}, content, or a list of them. */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Prompt {
  /** The name. If empty, the name of the method. */
  String name() default "";

  /** The display name. */
  String title() default "";

  /** The description. */
  String description() default "";
}
