package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.v1.ToolExecution;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Tools whose calls can be tasks. */
class TaskTest {
  private final App app = Bridge.app("test", "1");

  private Map<String, ToolExecution> executions() {
    return new Caller(app)
        .tools().stream()
            .filter(dev.mcpbridge.v1.Tool::hasExecution)
            .collect(Collectors.toMap(dev.mcpbridge.v1.Tool::getName, dev.mcpbridge.v1.Tool::getExecution));
  }

  private String extensions() {
    return app.discover().getCapabilities().getExtensions();
  }

  private static ToolExecution.Builder support(String support) {
    return ToolExecution.newBuilder().setTaskSupport(support);
  }

  @Test
  void annotatedMethodsDeclareTasks() {
    app.add(new Tools(app));
    assertEquals(
        Map.of(
            "report", support("optional").build(),
            "book", support("required").setRetry(true).build(),
            "later", support("optional").setStartsLater(true).build()),
        executions());
    assertEquals("{\"io.modelcontextprotocol/tasks\":{}}", extensions());
  }

  @Test
  void lambdasDeclareTasks() {
    app.tool("ordinary").task(Task.FORBIDDEN).handle((none, ctx) -> "done");
    assertEquals(Map.of(), executions());
    assertEquals("", extensions());
    app.tool("slow").task(Task.REQUIRED).retry(true).startsLater(true).handle((none, ctx) -> "done");
    assertEquals(
        Map.of("slow", support("required").setRetry(true).setStartsLater(true).build()), executions());
    assertEquals("{\"io.modelcontextprotocol/tasks\":{}}", extensions());
  }

  static final class NoTask {
    @Tool(retry = true)
    public void fetch() {}
  }

  @Test
  void optionsOfTasksNeedATask() {
    var e = assertThrows(DefinitionException.class, () -> app.add(new NoTask()));
    assertTrue(
        e.getMessage().contains("NoTask.fetch: tool \"fetch\": retry and startsLater need a task"), e.getMessage());
    var builder = app.tool("later").startsLater(true);
    assertThrows(DefinitionException.class, () -> builder.handle((none, ctx) -> "done"));
  }

  @Test
  void aToolStartsItsTask() {
    app.add(new Tools(app));
    var called = new Caller(app).answers("Ada").tool("later");
    assertEquals("Hello, Ada", called.text());
    assertTrue(called.taskStarted());
    assertFalse(new Caller(app).answers("Ada").tool("book").taskStarted());
    app.resource("test://x").handle((none, ctx) -> {
      ctx.startTask(); // It has no effect.
      return "x";
    });
    assertFalse(new Caller(app).resource("test://x").taskStarted());
  }
}
