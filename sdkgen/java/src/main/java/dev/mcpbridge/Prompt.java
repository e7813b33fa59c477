package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Makes a method a prompt: it returns text, a {@link Message}, content, or a list of them. */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Prompt {
  /** Its name, if it is not the method's. */
  String name() default "";

  /** Its name for people. */
  String title() default "";

  /** What it is for. */
  String description() default "";
}
