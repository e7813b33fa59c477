package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a method complete an argument of a prompt. It takes what is typed so far, as a {@code String}, and returns the
 * values to propose, the best first; a {@code Map<String, String>} gets the other arguments, as far as they are known.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface CompletePrompt {
  /** Its name. */
  String value();

  /** The argument, if its name is not that of the {@code String} parameter. */
  String argument() default "";
}
