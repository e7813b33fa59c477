package bench;

import io.modelcontextprotocol.server.McpServer;
import io.modelcontextprotocol.server.transport.HttpServletStreamableServerTransportProvider;
import io.modelcontextprotocol.spec.McpSchema.CallToolResult;
import io.modelcontextprotocol.spec.McpSchema.Tool;
import java.util.List;
import java.util.Map;
import org.apache.catalina.startup.Tomcat;
import tools.jackson.databind.json.JsonMapper;

/**
 * The same tool, with the official SDK serving Streamable HTTP itself: as it is, or with the argument "fast" in the
 * thread of the request, which must not wait then, and without a look at the arguments. It answers calls of a session
 * as an event stream, and speaks nothing newer than 2025-11-25.
 */
public final class Official {
  private static final JsonMapper JSON = new JsonMapper();

  private Official() {}

  public static void main(String[] args) throws Exception {
    var transport = HttpServletStreamableServerTransportProvider.builder().mcpEndpoint("/mcp").build();
    Map<String, Object> schema =
        Map.of("type", "object", "properties", Map.of("text", Map.of("type", "string")), "required", List.of("text"));
    boolean fast = args.length > 0 && args[0].equals("fast");
    McpServer.sync(transport)
        .serverInfo("bench", "1")
        .immediateExecution(fast)
        .validateToolInputs(!fast)
        .toolCall(
            Tool.builder().name("echo").description("Answers its arguments.").inputSchema(schema).build(),
            (exchange, request) ->
                CallToolResult.builder().addTextContent(JSON.writeValueAsString(request.arguments())).build())
        .build();

    Tomcat tomcat = new Tomcat();
    tomcat.setBaseDir(System.getProperty("java.io.tmpdir"));
    tomcat.setHostname("127.0.0.1");
    tomcat.setPort(0);
    tomcat.getConnector().setProperty("address", "127.0.0.1");
    tomcat.getConnector().setProperty("maxKeepAliveRequests", "-1"); // A caller has one connection.
    var context = tomcat.addContext("", null);
    Tomcat.addServlet(context, "mcp", transport).setAsyncSupported(true);
    context.addServletMappingDecoded("/mcp", "mcp");
    tomcat.start();
    System.err.println("serving http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/mcp");
    tomcat.getServer().await();
  }
}
