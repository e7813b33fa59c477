package bench;

import dev.mcpbridge.Bridge;
import dev.mcpbridge.Hint;
import dev.mcpbridge.Tool;
import java.util.Map;
import tools.jackson.databind.json.JsonMapper;

/** The tool the benchmark calls, with our SDK: it answers its arguments as text. */
public final class Echo {
  private static final JsonMapper JSON = new JsonMapper();

  @Tool(description = "Answers its arguments.", readOnly = Hint.YES)
  public String echo(String text) {
    return JSON.writeValueAsString(Map.of("text", text));
  }

  public static void main(String[] args) {
    Bridge.app("bench", "1").add(new Echo()).run(args);
  }
}
