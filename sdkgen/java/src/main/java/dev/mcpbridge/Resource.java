package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Registers a method as a resource. It returns the content: text, bytes, or any other value as JSON. */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Resource {
  /** The URI. */
  String uri();

  /** The name for programs. If empty, the name of the method. */
  String name() default "";

  /** The display name. */
  String title() default "";

  /** The description, for the model. */
  String description() default "";

  /** The media type. If empty, that of a user interface for {@code ui://}, or else of text, bytes or JSON. */
  String mimeType() default "";
}
