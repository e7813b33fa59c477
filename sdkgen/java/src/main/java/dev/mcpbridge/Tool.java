package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Registers a method as a tool. Its parameters are the tool's arguments, except those of the types {@link Context},
 * {@link Progress}, {@link Log} and {@link Cancellation}.
 *
 * <p>The hints are for clients. By default, clients assume a destructive tool in an open world.
 */
@Documented
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Tool {
  /** The name. If empty, the name of the method. */
  String name() default "";

  /** The display name. */
  String title() default "";

  /** The description, for the model. */
  String description() default "";

  /** The tool has no side effects. */
  Hint readOnly() default Hint.UNKNOWN;

  /** The tool may destroy something. */
  Hint destructive() default Hint.UNKNOWN;

  /** The tool is idempotent. */
  Hint idempotent() default Hint.UNKNOWN;

  /** The tool interacts with external systems. */
  Hint openWorld() default Hint.UNKNOWN;

  /** Icons: {@code https:} or {@code data:} URIs of images. */
  String[] icons() default {};

  /** Whether calls can be tasks. For tools that take long. */
  Task task() default Task.FORBIDDEN;

  /** The bridge may call the tool again, once, if the program ends during a task. Otherwise the task fails. */
  boolean retry() default false;

  /**
   * A call becomes a task only when the tool calls {@link Context#startTask}. Otherwise it is a task from the start.
   */
  boolean startsLater() default false;

  /**
   * The URI of a resource, {@code ui://...}: clients that support MCP Apps show the results in that HTML page.
   */
  String ui() default "";
}
