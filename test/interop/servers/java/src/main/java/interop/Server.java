package interop;

import io.modelcontextprotocol.json.McpJsonDefaults;
import io.modelcontextprotocol.server.McpServer;
import io.modelcontextprotocol.server.McpServerFeatures.SyncCompletionSpecification;
import io.modelcontextprotocol.server.McpServerFeatures.SyncPromptSpecification;
import io.modelcontextprotocol.server.McpServerFeatures.SyncResourceSpecification;
import io.modelcontextprotocol.server.transport.StdioServerTransportProvider;
import io.modelcontextprotocol.spec.McpSchema.CallToolResult;
import io.modelcontextprotocol.spec.McpSchema.CompleteResult;
import io.modelcontextprotocol.spec.McpSchema.CreateMessageRequest;
import io.modelcontextprotocol.spec.McpSchema.ElicitRequest;
import io.modelcontextprotocol.spec.McpSchema.GetPromptResult;
import io.modelcontextprotocol.spec.McpSchema.ProgressNotification;
import io.modelcontextprotocol.spec.McpSchema.Prompt;
import io.modelcontextprotocol.spec.McpSchema.PromptArgument;
import io.modelcontextprotocol.spec.McpSchema.PromptMessage;
import io.modelcontextprotocol.spec.McpSchema.PromptReference;
import io.modelcontextprotocol.spec.McpSchema.ReadResourceResult;
import io.modelcontextprotocol.spec.McpSchema.Resource;
import io.modelcontextprotocol.spec.McpSchema.Role;
import io.modelcontextprotocol.spec.McpSchema.SamplingMessage;
import io.modelcontextprotocol.spec.McpSchema.ServerCapabilities;
import io.modelcontextprotocol.spec.McpSchema.TextContent;
import io.modelcontextprotocol.spec.McpSchema.TextResourceContents;
import io.modelcontextprotocol.spec.McpSchema.Tool;
import java.util.List;
import java.util.Map;

/**
 * A server on stdio with tools, a resource, a prompt, completion, progress, elicitation and sampling. It is built on
 * the official Java SDK, because no published server is.
 */
public final class Server {
  private Server() {}

  public static void main(String[] args) {
    McpServer.sync(new StdioServerTransportProvider(McpJsonDefaults.getMapper()))
        .serverInfo("java", "1")
        .capabilities(
            ServerCapabilities.builder().tools(true).resources(false, false).prompts(false).completions().build())
        .toolCall(tool("echo"), (exchange, request) -> text(String.valueOf(request.arguments().get("text"))))
        .toolCall(
            tool("count"),
            (exchange, request) -> {
              for (int i = 1; i <= 3; i++) {
                if (request.progressToken() != null) {
                  exchange.progressNotification(new ProgressNotification(request.progressToken(), i, 3.0, null));
                }
              }
              return text("counted");
            })
        .toolCall(
            tool("ask"),
            (exchange, request) -> {
              Map<String, Object> schema =
                  Map.of("type", "object", "properties", Map.of("name", Map.of("type", "string")));
              return text(
                  "You are "
                      + exchange
                          .createElicitation(ElicitRequest.builder("Who are you?", schema).build())
                          .content()
                          .get("name"));
            })
        .toolCall(
            tool("think"),
            (exchange, request) -> {
              var prompt = SamplingMessage.builder(Role.USER, TextContent.builder("What is love?").build()).build();
              var answer = exchange.createMessage(CreateMessageRequest.builder(List.of(prompt), 10).build());
              return text("The model says: " + ((TextContent) answer.content()).text());
            })
        .resources(
            new SyncResourceSpecification(
                Resource.builder("java://greeting", "greeting").mimeType("text/plain").build(),
                (exchange, request) ->
                    new ReadResourceResult(
                        List.of(new TextResourceContents(request.uri(), "text/plain", "Hello from Java")))))
        .prompts(
            new SyncPromptSpecification(
                Prompt.builder("greet")
                    .arguments(List.of(PromptArgument.builder("name").required(true).build()))
                    .build(),
                (exchange, request) ->
                    GetPromptResult.builder(
                            List.of(
                                PromptMessage.builder(
                                        Role.USER,
                                        TextContent.builder("Greet " + request.arguments().get("name")).build())
                                    .build()))
                        .build()))
        .completions(
            new SyncCompletionSpecification(
                new PromptReference("greet"),
                (exchange, request) ->
                    new CompleteResult(new CompleteResult.CompleteCompletion(List.of("Ada", "Alan")))))
        .build();
  }

  private static Tool tool(String name) {
    Map<String, Object> schema = Map.of("type", "object", "properties", Map.of("text", Map.of("type", "string")));
    return Tool.builder().name(name).description("Does it.").inputSchema(schema).build();
  }

  private static CallToolResult text(String text) {
    return CallToolResult.builder().addTextContent(text).build();
  }
}
