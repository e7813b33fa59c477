package dev.mcpbridge.testing;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.stream.Collectors;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/**
 * An MCP client of a program behind the real bridge, over stdio:
 *
 * <pre>{@code
 * try (Client client = Client.start(Weather.class)) {
 *   assertEquals("21.5", client.call("degrees", Map.of("city", "Oslo")).text());
 * }
 * }</pre>
 *
 * <p>It uses 2025-11-25 and supports elicitation, sampling and roots. It is not thread-safe. The bridge is {@code
 * mcpbridge} in PATH, or the program in the system property or environment variable {@code MCPBRIDGE_BIN}. Its log goes
 * to standard error.
 */
public final class Client implements AutoCloseable {
  private static final JsonMapper JSON = new JsonMapper();
  private static final String END = "";

  /** The time in seconds to wait for a message, including the start of a Java program. */
  private static final int TIMEOUT = 60;

  private static final int METHOD_NOT_FOUND = -32601;

  private final Process bridge;
  private final Writer in;
  private final BlockingQueue<String> lines = new LinkedBlockingQueue<>();
  private final Deque<JsonNode> notifications = new ArrayDeque<>();
  private BiFunction<String, JsonNode, Object> answers =
      (method, params) -> {
        throw new AssertionError("the server requested " + method + ", and the test has no answer: " + params);
      };
  private int id;
  private JsonNode initialized;

  /** The result of a tool call. */
  public record Result(JsonNode json) {
    /** The text of the result. */
    public String text() {
      return json.path("content").valueStream().map(b -> b.path("text").asString("")).collect(Collectors.joining("\n"));
    }

    /** Reports whether the tool failed. */
    public boolean isError() {
      return json.path("isError").asBoolean(false);
    }

    /** The structured content, as JSON. */
    public String structured() {
      return json.path("structuredContent").toString();
    }
  }

  /** A JSON-RPC error. */
  public static final class RpcException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final transient JsonNode error;

    RpcException(JsonNode error) {
      super(error.toString());
      this.error = error;
    }

    public int code() {
      return error.path("code").asInt();
    }

    /** The data of the error, or a MissingNode. */
    public JsonNode data() {
      return error.path("data");
    }
  }

  /** Starts the bridge with a program of this test's class path, and waits until both are ready. */
  public static Client start(Class<?> main, String... args) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    command.addAll(
        List.of(
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            System.getProperty("java.class.path"),
            main.getName()));
    command.addAll(List.of(args));
    return start(command);
  }

  /** Starts the bridge with a program, by its command, and waits until both are ready. */
  public static Client start(List<String> command) {
    String program = System.getProperty("MCPBRIDGE_BIN", System.getenv("MCPBRIDGE_BIN"));
    List<String> all = new ArrayList<>(List.of(program == null ? "mcpbridge" : program, "run", "--stdio", "--"));
    all.addAll(command);
    try {
      return new Client(new ProcessBuilder(all).redirectError(ProcessBuilder.Redirect.INHERIT).start());
    } catch (IOException e) {
      throw new UncheckedIOException(
          "cannot start the bridge; the environment variable MCPBRIDGE_BIN can name it: " + e.getMessage(), e);
    }
  }

  private Client(Process bridge) {
    this.bridge = bridge;
    this.in = bridge.outputWriter(StandardCharsets.UTF_8);
    Thread reader = new Thread(this::read, "mcpbridge-client");
    reader.setDaemon(true);
    reader.start();
    try {
      Map<String, ?> capabilities =
          Map.of(
              "elicitation",
              Map.of("form", Map.of(), "url", Map.of()),
              "sampling",
              Map.of("tools", Map.of()),
              "roots",
              Map.of());
      initialized =
          request(
              "initialize",
              Map.of(
                  "protocolVersion",
                  "2025-11-25",
                  "capabilities",
                  capabilities,
                  "clientInfo",
                  Map.of("name", "dev.mcpbridge.testing", "version", "1")));
      notify("notifications/initialized", Map.of());
      awaitBackend();
    } catch (RuntimeException | Error e) {
      close();
      throw e;
    }
  }

  /** Waits for the program: the bridge responds to initialize while the program starts, and to lists afterwards. */
  private void awaitBackend() {
    try {
      request("tools/list", Map.of());
    } catch (RpcException e) {
      if (e.code() != METHOD_NOT_FOUND) {
        throw new AssertionError("the program did not start (see standard error): " + e.getMessage(), e);
      }
    }
  }

  private void read() {
    try (BufferedReader out = bridge.inputReader(StandardCharsets.UTF_8)) {
      for (String line; (line = out.readLine()) != null; ) {
        lines.add(line);
      }
    } catch (IOException e) {
      // The bridge has exited.
    }
    lines.add(END);
  }

  /** Sets the function that returns the result of a server's request, such as elicitation/create. */
  public Client answers(BiFunction<String, JsonNode, Object> answers) {
    this.answers = answers;
    return this;
  }

  /** The serverInfo of the server. */
  public JsonNode serverInfo() {
    return initialized.path("serverInfo");
  }

  /** Calls a tool. Its arguments are a map or a record. */
  public Result call(String name, Object arguments) {
    return new Result(
        request("tools/call", Map.of("name", name, "arguments", arguments, "_meta", Map.of("progressToken", id + 1))));
  }

  /** Sends a request and returns its result. Throws {@link RpcException} if the response is an error. */
  public JsonNode request(String method, Object params) {
    return await(send(method, params));
  }

  /** Sends a request and returns its id, for {@link #await}. */
  public int send(String method, Object params) {
    id++;
    write(
        JSON.createObjectNode()
            .put("jsonrpc", "2.0")
            .put("id", id)
            .put("method", method)
            .set("params", JSON.valueToTree(params)));
    return id;
  }

  /** Returns the result of the request with this id. */
  public JsonNode await(int id) {
    while (true) {
      JsonNode message = next();
      if (!message.has("method") && message.path("id").asInt() == id) {
        if (message.has("error")) {
          throw new RpcException(message.get("error"));
        }
        return message.get("result");
      }
    }
  }

  /** Sends a notification. */
  public void notify(String method, Object params) {
    write(JSON.createObjectNode().put("jsonrpc", "2.0").put("method", method).set("params", JSON.valueToTree(params)));
  }

  /** Returns the params of the next notification of a method, which may have arrived already. */
  public JsonNode awaitNotification(String method) {
    while (true) {
      for (var all = notifications.iterator(); all.hasNext(); ) {
        JsonNode notification = all.next();
        if (notification.path("method").asString("").equals(method)) {
          all.remove();
          return notification.path("params");
        }
      }
      next();
    }
  }

  /** Returns the next message. Notifications are kept, and requests answered. */
  private JsonNode next() {
    String line;
    try {
      line = lines.poll(TIMEOUT, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
    if (line == null) {
      throw new AssertionError("no message arrived within " + TIMEOUT + " seconds");
    }
    if (line.equals(END)) {
      lines.add(END);
      throw new AssertionError("the bridge exited (see standard error)");
    }
    JsonNode message = JSON.readTree(line);
    if (message.has("method") && !message.has("id")) {
      notifications.add(message);
    } else if (message.has("method")) {
      ObjectNode answer = JSON.createObjectNode().put("jsonrpc", "2.0");
      answer.set("id", message.get("id"));
      try {
        answer.set("result", JSON.valueToTree(answers.apply(message.get("method").asString(), message.path("params"))));
        write(answer);
      } catch (AssertionError e) {
        answer.set(
            "error",
            JsonNodeFactory.instance.objectNode().put("code", -32603).put("message", "the test has no answer"));
        write(answer);
        throw e;
      }
    }
    return message;
  }

  private void write(JsonNode message) {
    try {
      in.write(message + "\n");
      in.flush();
    } catch (IOException e) {
      throw new UncheckedIOException("cannot write to the bridge (see standard error)", e);
    }
  }

  /** Stops the bridge and the program. Throws {@link AssertionError} if they do not exit in time. */
  @Override
  public void close() {
    try {
      in.close(); // Closing stdin stops a stdio server.
    } catch (IOException e) {
      // The bridge has exited.
    }
    try {
      if (!bridge.waitFor(TIMEOUT, TimeUnit.SECONDS)) {
        bridge.destroyForcibly();
        throw new AssertionError("the bridge did not exit");
      }
    } catch (InterruptedException e) {
      bridge.destroyForcibly();
      Thread.currentThread().interrupt();
    }
  }
}
