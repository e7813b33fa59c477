package dev.mcpbridge;

import dev.mcpbridge.v1.Icon;
import dev.mcpbridge.v1.ToolAnnotations;
import dev.mcpbridge.v1.ToolExecution;
import java.lang.reflect.Type;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Supplier;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JavaType;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/** Builds a tool. {@link #handle} adds it. By default, clients assume a destructive tool in an open world. */
public final class ToolBuilder<A, R> {
  /** Return types that allow null. */
  private static final List<Type> NULL_TYPES = List.of(void.class, Void.class, Object.class);

  /** The scheme of the URIs of user interfaces. */
  static final String UI_SCHEME = "ui://";

  private final App app;
  private final dev.mcpbridge.v1.Tool.Builder message = dev.mcpbridge.v1.Tool.newBuilder();
  private final ToolAnnotations.Builder annotations = ToolAnnotations.newBuilder();
  private final ToolExecution.Builder execution = ToolExecution.newBuilder();
  private Task task = Task.FORBIDDEN;
  private String ui = "";
  private Class<A> input; // Null for JSON.
  private ObjectNode schema;
  private Type output; // Null if the value determines it.

  ToolBuilder(App app, String name) {
    this.app = app;
    message.setName(name);
  }

  /** The display name. */
  public ToolBuilder<A, R> title(String title) {
    message.setTitle(title);
    return this;
  }

  /** The description, for the model. */
  public ToolBuilder<A, R> description(String description) {
    message.setDescription(description);
    return this;
  }

  /** Sets the hint whether the tool has no side effects. */
  public ToolBuilder<A, R> readOnly(boolean hint) {
    annotations.setReadOnlyHint(hint);
    return this;
  }

  /** Sets the hint whether the tool may destroy something. */
  public ToolBuilder<A, R> destructive(boolean hint) {
    annotations.setDestructiveHint(hint);
    return this;
  }

  /** Sets the hint whether the tool is idempotent. */
  public ToolBuilder<A, R> idempotent(boolean hint) {
    annotations.setIdempotentHint(hint);
    return this;
  }

  /** Sets the hint whether the tool interacts with external systems. */
  public ToolBuilder<A, R> openWorld(boolean hint) {
    annotations.setOpenWorldHint(hint);
    return this;
  }

  /** Sets whether calls can be tasks. For tools that take long. */
  public ToolBuilder<A, R> task(Task task) {
    this.task = task;
    return this;
  }

  /** Sets whether the bridge may call the tool again, once, if the program ends during a task. */
  public ToolBuilder<A, R> retry(boolean retry) {
    execution.setRetry(retry);
    return this;
  }

  /** Sets whether a call becomes a task only when the tool calls {@link Context#startTask}. */
  public ToolBuilder<A, R> startsLater(boolean later) {
    execution.setStartsLater(later);
    return this;
  }

  /** Sets the URI of a resource, {@code ui://...}: clients that support MCP Apps show the results in that HTML page. */
  public ToolBuilder<A, R> ui(String uri) {
    ui = uri;
    return this;
  }

  /** Adds an icon: the {@code https:} or {@code data:} URI of an image. */
  public ToolBuilder<A, R> icon(String src) {
    message.addIcons(Icon.newBuilder().setSrc(src));
    return this;
  }

  /** MCP {@code _meta}. */
  public ToolBuilder<A, R> meta(Map<String, ?> meta) {
    message.setMeta(Json.text(meta));
    return this;
  }

  /** The type of the arguments: a record or a class. */
  @SuppressWarnings("unchecked") // No value of type A exists yet.
  public <B> ToolBuilder<B, R> input(Class<B> type) {
    var next = (ToolBuilder<B, R>) this;
    String why = Types.unreadable(type);
    if (why != null) {
      throw new DefinitionException("tool \"" + message.getName() + "\": " + why);
    }
    next.input = type;
    next.schema = Schema.of(type, Schema.Use.INPUT);
    return next;
  }

  /** The JSON Schema of the arguments, which the handler receives as JSON. */
  public ToolBuilder<A, R> inputSchema(String json) {
    if (!(Json.MAPPER.readTree(json) instanceof ObjectNode object)) {
      throw new DefinitionException("tool \"" + message.getName() + "\": the input schema is not a JSON object");
    }
    String unknown = Formats.unknown(object);
    if (unknown != null) {
      throw new DefinitionException("tool \"" + message.getName() + "\": " + unknown);
    }
    schema = object;
    return this;
  }

  /** The type of the result, whose schema is the tool's output schema. */
  @SuppressWarnings("unchecked") // No value of type R exists yet.
  public <S> ToolBuilder<A, S> output(Class<S> type) {
    output = type;
    return (ToolBuilder<A, S>) this;
  }

  /** Adds the tool, also while the app runs. */
  public App handle(Handler<? super A, ? extends R> handler) {
    ObjectNode properties = schema != null ? schema : JsonNodeFactory.instance.objectNode().put("type", "object");
    if (!properties.path("type").asString("").equals("object")) {
      throw new DefinitionException(
          "tool \""
              + message.getName()
              + "\": its arguments are an object; "
              + (input == null ? "its schema" : input.getSimpleName())
              + " is none");
    }
    setTask(message, task, execution);
    setUi(message, ui);
    var arguments = new Schema.Arguments(message.getName(), properties, input != null || schema == null);
    Class<A> type = input;
    add(
        app,
        message,
        annotations,
        arguments,
        output,
        false,
        (json, ctx) -> handler.handle(read(arguments, json, type), ctx),
        App.callerLine());
    return app;
  }

  @SuppressWarnings("unchecked") // Without a class, A is ObjectNode.
  private static <A> A read(Schema.Arguments arguments, ObjectNode json, Class<A> type) {
    try {
      return type == null ? (A) json : Json.MAPPER.treeToValue(json, type);
    } catch (JacksonException e) {
      throw arguments.conversionError(null, e);
    }
  }

  /** Declares the tasks of a tool. */
  static void setTask(dev.mcpbridge.v1.Tool.Builder message, Task task, ToolExecution.Builder execution) {
    if (task != Task.FORBIDDEN) {
      message.setExecution(execution.setTaskSupport(task.name().toLowerCase(Locale.ROOT)));
    } else if (execution.getRetry() || execution.getStartsLater()) {
      throw new DefinitionException(
          "tool \"" + message.getName() + "\": retry and startsLater need a task; add Task.OPTIONAL or Task.REQUIRED");
    }
  }

  /** Declares the user interface of a tool, if it has one. */
  static void setUi(dev.mcpbridge.v1.Tool.Builder message, String uri) {
    if (uri.isEmpty()) {
      return;
    }
    if (!uri.startsWith(UI_SCHEME)) {
      throw new DefinitionException(
          "tool \"" + message.getName() + "\": the URI of a user interface starts with " + UI_SCHEME + ": " + uri);
    }
    var meta = (ObjectNode) Json.MAPPER.readTree(message.getMeta().isEmpty() ? "{}" : message.getMeta());
    meta.withObjectProperty("ui").put("resourceUri", uri);
    message.setMeta(Json.text(meta));
  }

  /** Reports whether a tool has a user interface. */
  static boolean hasUi(dev.mcpbridge.v1.Tool message) {
    return !message.getMeta().isEmpty() && Json.MAPPER.readTree(message.getMeta()).path("ui").has("resourceUri");
  }

  static void add(
      App app,
      dev.mcpbridge.v1.Tool.Builder message,
      ToolAnnotations.Builder annotations,
      Schema.Arguments arguments,
      Type returned,
      boolean nullable,
      Handler<ObjectNode, ?> handler,
      Supplier<String> where) {
    message.setInputSchema(Json.text(arguments.schema));
    // Absent is not false: a tool is destructive by default.
    if (!annotations.build().equals(ToolAnnotations.getDefaultInstance())) {
      message.setAnnotations(annotations);
    }
    Schema.Output output = null;
    boolean allowsNull = nullable || returned == null || NULL_TYPES.contains(returned);
    if (returned != null) {
      JavaType type = Json.MAPPER.constructType(returned);
      allowsNull |= type.isReferenceType();
      String why = Types.unwritable(type);
      if (why != null) {
        throw new DefinitionException("tool \"" + message.getName() + "\": " + why);
      }
      if (Content.structured(type)) {
        output = Schema.Output.of(returned);
        message.setOutputSchema(output.schema());
      }
    }
    app.put(new App.ToolEntry(message.build(), arguments, handler, output, allowsNull, where));
  }
}
