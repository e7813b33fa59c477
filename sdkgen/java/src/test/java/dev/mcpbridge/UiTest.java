package dev.mcpbridge;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mcpbridge.testing.Caller;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;

/** Tools with a user interface (extension ui, 2026-01-26: tool metadata, resources). */
class UiTest {
  private final App app = Bridge.app("test", "1");

  public static final class Reports {
    @Tool(ui = "ui://reports/report", task = Task.OPTIONAL)
    public String report() {
      return "done";
    }

    @Resource(uri = "ui://reports/report")
    public String page() {
      return "<!doctype html>";
    }

    @Resource(uri = "ui://reports/old", mimeType = "text/html")
    public String old() {
      return "<!doctype html>";
    }
  }

  private String extensions() {
    return app.discover().getCapabilities().getExtensions();
  }

  @Test
  void aUserInterfaceIsDeclaredAndHasItsType() {
    app.add(new Reports());
    app.tool("refresh")
        .ui("ui://reports/report")
        .meta(Map.of("ui", Map.of("visibility", List.of("app"))))
        .handle((none, ctx) -> "done");
    assertEquals(
        Map.of(
            "report", "{\"ui\":{\"resourceUri\":\"ui://reports/report\"}}",
            "refresh", "{\"ui\":{\"visibility\":[\"app\"],\"resourceUri\":\"ui://reports/report\"}}"),
        new Caller(app)
            .tools().stream()
                .collect(Collectors.toMap(dev.mcpbridge.v1.Tool::getName, dev.mcpbridge.v1.Tool::getMeta)));
    assertEquals("{\"io.modelcontextprotocol/tasks\":{},\"io.modelcontextprotocol/ui\":{}}", extensions());
    assertEquals("text/html;profile=mcp-app", type("ui://reports/report"));
    assertEquals("text/html", type("ui://reports/old"));
  }

  private String type(String uri) {
    return new Caller(app).resource(uri).result().getContents(0).getMimeType();
  }

  @Test
  void otherSchemesAreMistakes() {
    app.tool("plain").meta(Map.of("ui", "none")).handle((none, ctx) -> "done");
    assertEquals("", extensions());
    var builder = app.tool("report").ui("https://example.com");
    var e = assertThrows(DefinitionException.class, () -> builder.handle((none, ctx) -> "done"));
    assertTrue(e.getMessage().contains("the URI of a user interface starts with ui://"), e.getMessage());
  }
}
