package dev.mcpbridge;

/**
 * The entry point:
 *
 * <pre>{@code
 * public class Weather {
 *   @Tool(description = "Weather forecast for a city", readOnly = Hint.YES)
 *   public Forecast forecast(String city, @ToolArg(defaultValue = "3") @Min(1) @Max(14) int days) { ... }
 *
 *   public static void main(String[] args) {
 *     Bridge.app("weather", "1.0").add(new Weather()).run(args);
 *   }
 * }
 * }</pre>
 */
public final class Bridge {
  private Bridge() {}

  /** Creates an app without tools, resources and prompts. */
  public static App app(String name, String version) {
    return new App(name, version);
  }

  /** Creates an app with the tools, resources and prompts of these objects, named after the first. */
  public static App of(Object... objects) {
    if (objects.length == 0) {
      throw new IllegalArgumentException("there is no object to serve");
    }
    Class<?> type = objects[0] instanceof Class<?> c ? c : objects[0].getClass();
    String version = type.getPackage() == null ? null : type.getPackage().getImplementationVersion();
    return app(type.getSimpleName(), version == null ? "0.0.0" : version).add(objects);
  }
}
