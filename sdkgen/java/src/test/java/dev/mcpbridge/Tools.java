package dev.mcpbridge;

import jakarta.validation.constraints.Max;
import jakarta.validation.constraints.Min;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/** A program that the tests start. */
public final class Tools {
  private final App app;

  Tools(App app) {
    this.app = app;
  }

  public record Sum(int sum) {}

  public record Favourite(Colour colour) {}

  public enum Colour {
    RED,
    GREEN
  }

  @Tool(description = "Add two numbers.", readOnly = Hint.YES)
  public Sum add(int a, @ToolArg(defaultValue = "1") @Min(0) @Max(99) int b) {
    return new Sum(a + b);
  }

  @Tool
  public String echo(String text) {
    return text;
  }

  @Tool
  public String loud() throws IOException, InterruptedException {
    System.out.println("printed");
    new ProcessBuilder("echo", "echoed by a child").inheritIO().start().waitFor();
    return "ok";
  }

  @Tool
  public String slow(double seconds, String file, Progress progress, Cancellation cancellation) throws Exception {
    progress.progress(0);
    try {
      Thread.sleep((long) (seconds * 1000));
    } catch (InterruptedException e) {
      Files.writeString(Path.of(file), "interrupted, cancelled " + cancellation.isCancelled());
      throw e;
    }
    return "slept";
  }

  /** Ignores interrupts. */
  @Tool
  public String stuck(Progress progress) {
    progress.progress(0);
    long end = System.nanoTime() + 60_000_000_000L;
    while (System.nanoTime() < end) {
      Thread.onSpinWait();
    }
    return "done";
  }

  @Tool
  public String steps(int n, Context ctx) {
    for (int i = 0; i < n; i++) {
      ctx.progress(i, n);
      ctx.log().info(i);
    }
    return "done";
  }

  @Tool
  public String greet(String name, Context ctx) {
    var answer = ctx.elicit("Hello " + name + "! What is your favourite colour?", Favourite.class);
    return answer.accepted() ? name + " likes " + answer.data().colour() : name + " does not answer";
  }

  @Tool(task = Task.OPTIONAL)
  public String report(Context ctx) throws InterruptedException {
    ctx.progress(1, 2, "reading");
    new CountDownLatch(1).await();
    return "done";
  }

  @Tool(task = Task.REQUIRED, retry = true)
  public String book(Context ctx) {
    return "Booked for " + ctx.elicit("Who are you?", String.class).data();
  }

  @Tool(task = Task.OPTIONAL, startsLater = true)
  public String later(Context ctx) {
    String name = ctx.elicit("Who are you?", String.class).data();
    ctx.startTask();
    return "Hello, " + name;
  }

  @Tool
  public void exact() {
    throw new McpException(-31042, "exactly this", Map.of("n", 9007199254740993L));
  }

  @Tool
  public String fails() {
    throw new IllegalStateException("boom");
  }

  /** A class whose initialization fails. */
  private static final class Settings {
    static final int PORT = Integer.parseInt("many");
  }

  @Tool
  public int unready() {
    return Settings.PORT;
  }

  @Tool
  public String cannotBeWritten() {
    return null;
  }

  @Tool
  public Map<String, Double> notANumber() {
    return Map.of("a", Double.NaN);
  }

  @Tool
  public void logs() {
    System.getLogger("tools").log(System.Logger.Level.WARNING, "mind\nthe gap");
  }

  @Tool
  public void exits(boolean elsewhere) throws InterruptedException {
    if (elsewhere) {
      Thread thread = new Thread(() -> Runtime.getRuntime().exit(4)); // Elsewhere.
      thread.start();
      thread.join();
    }
    System.exit(3); // Here.
  }

  @Tool
  public String readStdin() throws IOException {
    return "[" + new String(System.in.readAllBytes(), StandardCharsets.UTF_8) + "]";
  }

  @Tool
  public void grow(String name) {
    app.tool(name).handle((json, ctx) -> name);
  }

  @Tool
  public void touch(String uri, Context ctx) {
    ctx.notifyUpdated(uri);
  }

  @Resource(uri = "test://greeting", description = "A greeting")
  public String greeting() {
    return "Hello";
  }

  @ResourceTemplate(uriTemplate = "test://items/{id}")
  public Map<String, Object> item(int id) {
    if (id > 99) {
      throw new NotFoundException("there is no item " + id);
    }
    return Map.of("id", id);
  }

  @Prompt(description = "Review something")
  public List<Object> review(@PromptArg(description = "What to review") String code) {
    return List.of("Review this: " + code, Message.assistant("I will."));
  }

  @CompletePrompt("review")
  public List<String> complete(String code) {
    return List.of(code + "1", code + "2");
  }

  /** The line of this file that has a text. */
  static int line(String text) throws IOException {
    List<String> lines = Files.readAllLines(Path.of("src", "test", "java", "dev", "mcpbridge", "Tools.java"));
    return 1 + lines.indexOf(lines.stream().filter(line -> line.contains(text)).findFirst().orElseThrow());
  }

  public static void main(String[] args) {
    System.out.println("printed before the app");
    App app = Bridge.app("test", "1.0").instructions("Try it.");
    System.out.println("printed after the app");
    app.add(new Tools(app)).run(args);
  }
}
