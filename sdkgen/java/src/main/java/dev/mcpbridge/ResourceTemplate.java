package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Registers a method as a resource template: in {@code db://tables/{table}}, its parameter {@code table} is the value
 * of the variable. {@code {+path}} also matches slashes, and {@code {?a,b}} at the end is optional.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ResourceTemplate {
  /** The template, of RFC 6570. */
  String uriTemplate();

  /** The name for programs. If empty, the name of the method. */
  String name() default "";

  /** The display name. */
  String title() default "";

  /** The description, for the model. */
  String description() default "";

  /** The media type, if all resources have the same. */
  String mimeType() default "";
}
