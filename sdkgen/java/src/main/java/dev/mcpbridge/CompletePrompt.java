package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Registers a method that completes an argument of a prompt. Its {@code String} parameter is the text typed so far. It
 * returns the proposed values, best first. A {@code Map<String, String>} parameter receives the other known arguments.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface CompletePrompt {
  /** The name of the prompt. */
  String value();

  /** The argument. If empty, the name of the {@code String} parameter. */
  String argument() default "";
}
