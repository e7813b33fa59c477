package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a method the resources of a URI template: {@code db://tables/{table}}, where its parameter {@code table} is what stands
 * there. {@code {+path}} may hold slashes, and {@code {?a,b}} at the end may be missing.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface ResourceTemplate {
  /** The template, of RFC 6570. */
  String uriTemplate();

  /** Their name for programs, if it is not the method's. */
  String name() default "";

  /** Their name for people. */
  String title() default "";

  /** What they are, for the model. */
  String description() default "";

  /** Their media type, if they all have the same. */
  String mimeType() default "";
}
