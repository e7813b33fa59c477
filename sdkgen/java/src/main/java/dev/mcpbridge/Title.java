package dev.mcpbridge;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** The title of an enum constant for users: {@code enum Seat { @Title("Window") W, @Title("Aisle") A }}. */
@Documented
@Target(ElementType.FIELD)
@Retention(RetentionPolicy.RUNTIME)
public @interface Title {
  String value();
}
