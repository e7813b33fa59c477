package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Makes a method a resource: what it returns is what the resource holds. Text, bytes, or anything else as JSON. */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Resource {
  /** Its URI. */
  String uri();

  /** Its name for programs, if it is not the method's. */
  String name() default "";

  /** Its name for people. */
  String title() default "";

  /** What it is, for the model. */
  String description() default "";

  /** Its media type, if it is not that of text, bytes or JSON. */
  String mimeType() default "";
}
