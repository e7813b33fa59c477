package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Makes a method a tool. Its parameters are the tool's arguments, except those of the types {@link Context}, {@link
 * Progress}, {@link Log} and {@link Cancellation}.
 *
 * <p>The hints tell clients what to expect. What is not said, clients take for destructive, in an open world.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Tool {
  /** The tool's name, if it is not the method's. */
  String name() default "";

  /** Its name for people. */
  String title() default "";

  /** What it does, for the model. */
  String description() default "";

  /** It changes nothing. */
  Hint readOnly() default Hint.UNKNOWN;

  /** It may destroy something. */
  Hint destructive() default Hint.UNKNOWN;

  /** Calling it twice is the same as calling it once. */
  Hint idempotent() default Hint.UNKNOWN;

  /** It deals with the world outside. */
  Hint openWorld() default Hint.UNKNOWN;

  /** Pictures of it: {@code https:} or {@code data:} URIs. */
  String[] icons() default {};
}
