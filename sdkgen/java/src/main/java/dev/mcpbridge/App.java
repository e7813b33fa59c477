package dev.mcpbridge;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import dev.mcpbridge.v1.Capability;
import dev.mcpbridge.v1.CompleteRequest;
import dev.mcpbridge.v1.CompleteResponse;
import dev.mcpbridge.v1.Completion;
import dev.mcpbridge.v1.DiscoverResponse;
import dev.mcpbridge.v1.GetPromptRequest;
import dev.mcpbridge.v1.Implementation;
import dev.mcpbridge.v1.ListPromptsResponse;
import dev.mcpbridge.v1.ListResourceTemplatesResponse;
import dev.mcpbridge.v1.ListResourcesResponse;
import dev.mcpbridge.v1.ListToolsResponse;
import dev.mcpbridge.v1.PromptArgument;
import dev.mcpbridge.v1.PromptsCapability;
import dev.mcpbridge.v1.ReadResourceRequest;
import dev.mcpbridge.v1.ResourcesCapability;
import dev.mcpbridge.v1.ServerCapabilities;
import dev.mcpbridge.v1.ToolsCapability;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.function.Consumer;
import java.util.function.LongConsumer;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/**
 * A set of tools, resources and prompts. All of them may be changed while the app runs, from any thread; clients are
 * notified.
 *
 * <p>Handlers run in virtual threads on Java 21 and newer, and otherwise in up to 32 threads.
 */
public final class App {
  static {
    Stdout.redirect();
  }

  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_.-]{1,128}");
  private static final int MAX_COMPLETIONS = 100;

  // Extensions of MCP: tasks, and user interfaces (MCP Apps).
  private static final String TASKS = "io.modelcontextprotocol/tasks";
  private static final String UI = "io.modelcontextprotocol/ui";

  // Definitions, their handlers, and their source lines.

  record ToolEntry(
      dev.mcpbridge.v1.Tool message,
      Schema.Arguments arguments,
      Handler<ObjectNode, ?> handler,
      Schema.Output output,
      boolean allowsNull,
      Supplier<String> where)
      implements Entry {}

  record ResourceEntry(dev.mcpbridge.v1.Resource message, Handler<Void, ?> handler, Supplier<String> where)
      implements Entry {}

  record TemplateEntry(
      dev.mcpbridge.v1.ResourceTemplate message,
      Template template,
      Map<String, List<String>> choices,
      Handler<Map<String, String>, ?> handler,
      Supplier<String> where)
      implements Entry {}

  /** {@code choices} are the values of enum arguments. */
  record PromptEntry(
      dev.mcpbridge.v1.Prompt message,
      Map<String, List<String>> choices,
      Handler<Map<String, String>, ?> handler,
      Supplier<String> where)
      implements Entry {}

  private record CompleterEntry(Completer completer, Supplier<String> where) implements Entry {}

  private interface Entry {
    /** Returns the line of the definition, which is determined only if it is used. */
    Supplier<String> where();
  }

  private record CompletionKey(String kind, String definition, String argument) {}

  private final String name;
  private final Implementation.Builder info = Implementation.newBuilder();
  private String instructions;
  private Long cacheTtl; // Milliseconds.
  private String cacheScope;
  private int threads;
  final Changes changes = new Changes();

  // Copied on write, in the order of definition.
  private volatile Map<String, ToolEntry> tools = Map.of();
  private volatile Map<String, ResourceEntry> resources = Map.of();
  private volatile Map<String, TemplateEntry> templates = Map.of();
  private volatile Map<String, PromptEntry> prompts = Map.of();
  private volatile Map<CompletionKey, CompleterEntry> completers = Map.of();

  private final Set<String> warned = ConcurrentHashMap.newKeySet(); // Definitions whose handlers repeat events.

  App(String name, String version) {
    this.name = name;
    info.setName(name).setVersion(version);
  }

  /** The display name. */
  public App title(String title) {
    info.setTitle(title);
    return this;
  }

  /** Instructions for the model. */
  public App instructions(String instructions) {
    this.instructions = instructions;
    return this;
  }

  /** Sets how long clients may cache the lists. If not set, the bridge decides. */
  public App cacheTtl(Duration ttl) {
    cacheTtl = ttl.toMillis();
    return this;
  }

  /** Sets the cache scope of the lists: "public", or "private" (callers with the same authorization, the default). */
  public App cacheScope(String scope) {
    cacheScope = scope;
    return this;
  }

  /** Runs handlers in up to this many platform threads, instead of virtual threads. */
  public App threads(int threads) {
    this.threads = threads;
    return this;
  }

  /**
   * Also sends records of these java.util.logging loggers during a call to its caller, if it requested that level.
   * System.Logger and SLF4J with slf4j-jdk14 write to them. The records must not contain secrets.
   */
  public App forwardLogs(String... loggers) {
    LogForwarder.add(loggers);
    return this;
  }

  // Tools, resources, prompts.

  /**
   * Adds the tools, resources, prompts and completions of these objects, or of static methods of these classes. Throws
   * a {@link DefinitionException} with all mistakes, each with its line.
   */
  public App add(Object... objects) {
    List<DefinitionException> mistakes = new ArrayList<>();
    for (Object object : objects) {
      Methods.add(this, object, mistakes);
    }
    if (!mistakes.isEmpty()) {
      throw mistakes.size() == 1 ? mistakes.get(0) : new DefinitionException(mistakes);
    }
    return this;
  }

  /** Builds a tool from a lambda: {@code app.tool("add").input(Sum.class).handle((sum, ctx) -> sum.a() + sum.b())}. */
  public ToolBuilder<ObjectNode, Object> tool(String name) {
    return new ToolBuilder<>(this, name);
  }

  /** Builds a resource from a lambda: {@code app.resource("config://app").handle((none, ctx) -> config)}. */
  public ResourceBuilder<Void> resource(String uri) {
    return ResourceBuilder.resource(this, uri);
  }

  /**
   * Builds a resource template from a lambda: {@code app.resourceTemplate("db://{table}").handle((variables, ctx) ->
   * ...)}.
   */
  public ResourceBuilder<Map<String, String>> resourceTemplate(String uriTemplate) {
    return ResourceBuilder.template(this, uriTemplate);
  }

  /**
   * Builds a prompt from a lambda: {@code app.prompt("review").argument("code", "What to review").handle((args, ctx) ->
   * ...)}.
   */
  public PromptBuilder prompt(String name) {
    return new PromptBuilder(this, name);
  }

  /** Completes an argument of a prompt. */
  public App completePrompt(String prompt, String argument, Completer completer) {
    return complete(prompt, argument, completer, callerLine());
  }

  /** Completes a variable of a resource template. */
  public App completeResourceTemplate(String uriTemplate, String variable, Completer completer) {
    return completeVariable(uriTemplate, variable, completer, callerLine());
  }

  public synchronized void removeTool(String name) {
    tools = without(tools, name, "tool");
    changes.listChanged(Changes.Lists.TOOLS);
  }

  public synchronized void removeResource(String uri) {
    resources = without(resources, uri, "resource");
    changes.listChanged(Changes.Lists.RESOURCES);
  }

  public synchronized void removeResourceTemplate(String uriTemplate) {
    templates = without(templates, uriTemplate, "resource template");
    changes.listChanged(Changes.Lists.RESOURCES);
  }

  public synchronized void removePrompt(String name) {
    prompts = without(prompts, name, "prompt");
    changes.listChanged(Changes.Lists.PROMPTS);
  }

  /** Notifies subscribers that the resource with this URI has changed. */
  public void notifyUpdated(String uri) {
    changes.updated(uri);
  }

  /**
   * Notifies the client that its user has completed the URL elicitation of an McpException with code -32042, by its id.
   */
  public void notifyElicitationCompleted(String elicitationId) {
    changes.elicitationCompleted(elicitationId);
  }

  /** Returns the definition of a tool as clients receive it. Throws IllegalArgumentException if it does not exist. */
  dev.mcpbridge.v1.Tool toolMessage(String name) {
    ToolEntry tool = tools.get(name);
    if (tool == null) {
      throw new IllegalArgumentException(notFound("tool", name, tools.keySet()).getMessage());
    }
    return tool.message;
  }

  synchronized void put(ToolEntry tool) {
    tools = with(tools, checkName(tool.message().getName(), "tool"), tool, "tool");
    changes.listChanged(Changes.Lists.TOOLS);
  }

  synchronized void put(ResourceEntry resource) {
    resources = with(resources, resource.message().getUri(), resource, "resource");
    changes.listChanged(Changes.Lists.RESOURCES);
  }

  synchronized void put(TemplateEntry template) {
    templates = with(templates, template.message().getUriTemplate(), template, "resource template");
    changes.listChanged(Changes.Lists.RESOURCES);
  }

  synchronized void put(PromptEntry prompt) {
    prompts = with(prompts, checkName(prompt.message().getName(), "prompt"), prompt, "prompt");
    changes.listChanged(Changes.Lists.PROMPTS);
  }

  /** Like {@link #completePrompt}, with the line of the definition. */
  App complete(String prompt, String argument, Completer completer, Supplier<String> where) {
    return put(new CompletionKey("prompt", prompt, argument), new CompleterEntry(completer, where));
  }

  /** Like {@link #completeResourceTemplate}, with the line of the definition. */
  App completeVariable(String uriTemplate, String variable, Completer completer, Supplier<String> where) {
    return put(new CompletionKey("resource", uriTemplate, variable), new CompleterEntry(completer, where));
  }

  private synchronized App put(CompletionKey what, CompleterEntry completer) {
    completers = with(completers, what, completer, "completion of");
    return this;
  }

  /** Returns the line of the application that called the SDK. */
  static Supplier<String> callerLine() {
    String where = SourceLine.caller();
    return () -> where;
  }

  private static String checkName(String name, String what) {
    if (!NAME.matcher(name).matches()) {
      throw new DefinitionException(what + " \"" + name + "\": a name is 1 to 128 letters, digits, '_', '-' and '.'");
    }
    return name;
  }

  private static <K, V extends Entry> Map<K, V> with(Map<K, V> map, K key, V value, String what) {
    if (map.containsKey(key)) {
      throw new DefinitionException(what + " \"" + key + "\" is already defined at " + map.get(key).where().get());
    }
    Map<K, V> copy = new LinkedHashMap<>(map);
    copy.put(key, value);
    return Collections.unmodifiableMap(copy);
  }

  private static <K, V> Map<K, V> without(Map<K, V> map, K key, String what) {
    if (!map.containsKey(key)) {
      throw new IllegalArgumentException("there is no " + what + " \"" + key + "\"");
    }
    Map<K, V> copy = new LinkedHashMap<>(map);
    copy.remove(key);
    return Collections.unmodifiableMap(copy);
  }

  // Methods of the contract.

  /** Implements Discover. */
  DiscoverResponse discover() {
    var capabilities =
        ServerCapabilities.newBuilder()
            .setTools(ToolsCapability.newBuilder().setListChanged(true))
            .setResources(ResourcesCapability.newBuilder().setListChanged(true).setSubscribe(true))
            .setPrompts(PromptsCapability.newBuilder().setListChanged(true))
            .setCompletions(Capability.getDefaultInstance())
            .setLogging(Capability.getDefaultInstance());
    var extensions = JsonNodeFactory.instance.objectNode();
    if (tools.values().stream().anyMatch(tool -> tool.message.hasExecution())) {
      extensions.putObject(TASKS);
    }
    if (tools.values().stream().anyMatch(tool -> ToolBuilder.hasUi(tool.message))) {
      extensions.putObject(UI);
    }
    if (!extensions.isEmpty()) {
      capabilities.setExtensions(Json.text(extensions));
    }
    var response =
        DiscoverResponse.newBuilder()
            .setContractVersion(Service.CONTRACT)
            .setServerInfo(info)
            .setCapabilities(capabilities);
    if (instructions != null) {
      response.setInstructions(instructions);
    }
    return response.build();
  }

  ListToolsResponse listTools(boolean hasCursor) {
    rejectCursor(hasCursor);
    var page = ListToolsResponse.newBuilder().addAllTools(tools.values().stream().map(ToolEntry::message).toList());
    setCacheHints(page::setTtlMs, page::setCacheScope);
    return page.build();
  }

  ListResourcesResponse listResources(boolean hasCursor) {
    rejectCursor(hasCursor);
    var page =
        ListResourcesResponse.newBuilder()
            .addAllResources(resources.values().stream().map(ResourceEntry::message).toList());
    setCacheHints(page::setTtlMs, page::setCacheScope);
    return page.build();
  }

  ListResourceTemplatesResponse listResourceTemplates(boolean hasCursor) {
    rejectCursor(hasCursor);
    var page =
        ListResourceTemplatesResponse.newBuilder()
            .addAllResourceTemplates(templates.values().stream().map(TemplateEntry::message).toList());
    setCacheHints(page::setTtlMs, page::setCacheScope);
    return page.build();
  }

  ListPromptsResponse listPrompts(boolean hasCursor) {
    rejectCursor(hasCursor);
    var page =
        ListPromptsResponse.newBuilder().addAllPrompts(prompts.values().stream().map(PromptEntry::message).toList());
    setCacheHints(page::setTtlMs, page::setCacheScope);
    return page.build();
  }

  private void setCacheHints(LongConsumer ttl, Consumer<String> scope) {
    if (cacheTtl != null) {
      ttl.accept(cacheTtl);
    }
    if (cacheScope != null) {
      scope.accept(cacheScope);
    }
  }

  private static void rejectCursor(boolean hasCursor) {
    if (hasCursor) {
      throw new CallStatus(Status.Code.INVALID_ARGUMENT, "there is no page at this cursor: all is on the first");
    }
  }

  /** Implements CallTool: returns a CallToolResult or InputRequired. Throws CallStatus and McpException only. */
  MessageLite callTool(String name, ByteString arguments, Context ctx) {
    ToolEntry tool = tools.get(name);
    if (tool == null) {
      throw notFound("tool", name, tools.keySet());
    }
    return round(
        ctx,
        "tool \"" + name + "\"",
        tool.where,
        () ->
            Content.result(
                await(tool.handler.handle(tool.arguments.parse(arguments), ctx), ctx), tool.output, tool.allowsNull),
        e ->
            Content.failure(
                e instanceof ToolException ? e.getMessage() : logFailure("tool \"" + name + "\"", e, tool.where)));
  }

  /** Implements ReadResource: returns a ReadResourceResult or InputRequired. */
  MessageLite readResource(ReadResourceRequest request, Context ctx) {
    String uri = request.getUri();
    ResourceEntry resource = resources.get(uri);
    if (resource != null) {
      String type = resource.message.hasMimeType() ? resource.message.getMimeType() : null;
      return round(
          ctx,
          "resource \"" + uri + "\"",
          resource.where,
          () -> Content.resources(await(resource.handler.handle(null, ctx), ctx), uri, type),
          e -> rethrow("resource", uri, e, resource.where));
    }
    for (TemplateEntry t : templates.values()) {
      Map<String, String> variables = t.template.match(uri);
      if (variables != null) {
        String type = t.message.hasMimeType() ? t.message.getMimeType() : null;
        return round(
            ctx,
            "resource template \"" + t.message.getUriTemplate() + "\"",
            t.where,
            () -> Content.resources(await(t.handler.handle(variables, ctx), ctx), uri, type),
            e -> rethrow("resource", uri, e, t.where));
      }
    }
    throw notFound("resource", uri, resources.keySet());
  }

  /** Implements GetPrompt: returns a GetPromptResult or InputRequired. */
  MessageLite getPrompt(GetPromptRequest request, Context ctx) {
    PromptEntry prompt = prompts.get(request.getName());
    if (prompt == null) {
      throw notFound("prompt", request.getName(), prompts.keySet());
    }
    Map<String, String> arguments = request.getArgumentsMap();
    List<String> missing =
        prompt.message.getArgumentsList().stream()
            .filter(a -> a.getRequired() && !arguments.containsKey(a.getName()))
            .map(PromptArgument::getName)
            .toList();
    if (!missing.isEmpty()) {
      throw new CallStatus(
          Status.Code.INVALID_ARGUMENT, "prompt \"" + request.getName() + "\" needs " + String.join(", ", missing));
    }
    List<String> names = prompt.message.getArgumentsList().stream().map(PromptArgument::getName).toList();
    for (String argument : arguments.keySet()) {
      if (!names.contains(argument)) {
        String close = Names.close(argument, names);
        String hint = close == null ? "" : "; did you mean " + close + "?";
        throw new CallStatus(
            Status.Code.INVALID_ARGUMENT,
            "prompt \"" + request.getName() + "\" has no argument \"" + argument + "\"" + hint);
      }
    }
    String description = prompt.message.hasDescription() ? prompt.message.getDescription() : null;
    return round(
        ctx,
        "prompt \"" + request.getName() + "\"",
        prompt.where,
        () -> Content.prompt(await(prompt.handler.handle(arguments, ctx), ctx), description),
        e -> rethrow("prompt", request.getName(), e, prompt.where));
  }

  /** Implements Complete. */
  CompleteResponse complete(CompleteRequest request) {
    String argument = request.getArgument().getName();
    boolean ofPrompt = request.getReference().hasPrompt();
    if (!ofPrompt && !request.getReference().hasResource()) {
      throw new CallStatus(Status.Code.INVALID_ARGUMENT, "the reference is neither a prompt nor a resource template");
    }
    String of = ofPrompt ? request.getReference().getPrompt().getName() : request.getReference().getResource().getUri();
    if (ofPrompt ? !prompts.containsKey(of) : !templates.containsKey(of) && !resources.containsKey(of)) {
      throw notFound(ofPrompt ? "prompt" : "resource template", of, ofPrompt ? prompts.keySet() : templates.keySet());
    }
    CompleterEntry entry = completers.get(new CompletionKey(ofPrompt ? "prompt" : "resource", of, argument));
    Collection<String> values = List.of();
    if (entry != null) {
      try {
        values =
            entry.completer.complete(request.getArgument().getValue(), request.getArgumentContext().getArgumentsMap());
      } catch (McpException e) {
        throw e;
      } catch (Throwable e) { // As in round: also a StackOverflowError.
        rethrow("completion of " + argument + " of", of, e, entry.where);
      }
    } else {
      TemplateEntry template = ofPrompt ? null : templates.get(of);
      Map<String, List<String>> choices =
          ofPrompt ? prompts.get(of).choices : template == null ? Map.of() : template.choices;
      String typed = request.getArgument().getValue().toLowerCase(Locale.ROOT);
      values =
          choices.getOrDefault(argument, List.of()).stream()
              .filter(v -> v.toLowerCase(Locale.ROOT).startsWith(typed))
              .toList();
    }
    var completion = Completion.newBuilder().addAllValues(values.stream().limit(MAX_COMPLETIONS).toList());
    return CompleteResponse.newBuilder()
        .setCompletion(completion.setTotal(values.size()).setHasMore(values.size() > MAX_COMPLETIONS))
        .build();
  }

  private static CallStatus notFound(String what, String name, Collection<String> names) {
    String queried = name.length() <= 128 ? name : name.substring(0, 128);
    String close = Names.close(queried, names);
    String hint = close == null ? "" : "; did you mean \"" + close + "\"?";
    return new CallStatus(Status.Code.NOT_FOUND, "there is no " + what + " \"" + queried + "\"" + hint);
  }

  private interface Work {
    MessageLite run() throws Exception;
  }

  private interface OnFailure {
    MessageLite handle(Throwable e);
  }

  /** Runs one round of a call. Returns its result or its input requests. */
  private MessageLite round(Context ctx, String what, Supplier<String> where, Work work, OnFailure failure) {
    if (ctx.isCancelled()) { // Canceled while it waited for a thread: do not start.
      throw new CancellationException("the call was canceled");
    }
    MessageLite result = null;
    ctx.enter();
    try {
      result = work.run();
    } catch (Throwable e) { // A StackOverflowError in a tool must not end other calls.
      if (e instanceof McpException exact && !ctx.ended()) {
        throw exact;
      }
      if (ctx.isCancelled()) {
        throw (CancellationException) new CancellationException("the call was canceled").initCause(e);
      }
      if (!ctx.ended()) {
        result = failure.handle(e);
      }
    } finally {
      ctx.exit();
    }
    if (ctx.repeated()) {
      warnOfRepeated(where.get() + ": " + what);
    }
    if (!ctx.ended()) {
      return result;
    }
    try {
      return ctx.inputRequired(); // A question has no answer yet, whatever the handler returned.
    } catch (IllegalStateException e) {
      return failure.handle(e);
    }
  }

  private void warnOfRepeated(String what) {
    if (warned.add(what)) {
      String warning =
          what
              + " sends progress or log messages before an answered question, and so again in each round;"
              + " send them after the question or in ctx.once";
      System.getLogger("mcpbridge").log(System.Logger.Level.WARNING, warning);
    }
  }

  private static Object await(Object value, Context ctx) throws Exception {
    if (!(value instanceof CompletionStage<?> stage)) {
      return value;
    }
    var future = stage.toCompletableFuture();
    ctx.onCancelled(() -> future.cancel(true));
    try {
      return future.get();
    } catch (ExecutionException | CompletionException e) {
      throw unwrapped(e.getCause());
    }
  }

  static Exception unwrapped(Throwable e) {
    if (e instanceof Error error) {
      throw error;
    }
    return (Exception) e;
  }

  /** Throws the error for the client of a resource or prompt that failed with e. */
  private static MessageLite rethrow(String what, String name, Throwable e, Supplier<String> where) {
    if (e instanceof CallStatus status) {
      throw status;
    }
    if (e instanceof NotFoundException) {
      throw new CallStatus(Status.Code.NOT_FOUND, e.getMessage());
    }
    if (e instanceof ToolException) {
      throw new McpException(-32603, e.getMessage());
    }
    throw new McpException(-32603, logFailure(what + " \"" + name + "\"", e, where));
  }

  /** Returns the message for the model, and logs the line and the stack trace from the handler on. */
  private static String logFailure(String what, Throwable thrown, Supplier<String> where) {
    Throwable e = SourceLine.unwrapInitializer(thrown);
    String at = SourceLine.ofFailure(e, where);
    String kind = e.getClass().getSimpleName();
    System.getLogger("mcpbridge").log(System.Logger.Level.ERROR, what + " failed at " + at + ": " + e, e);
    String message = e.getMessage();
    if (message == null || message.isBlank()) {
      return kind;
    }
    // The message of these exceptions is only a name.
    return e instanceof java.nio.file.FileSystemException
            || e instanceof ReflectiveOperationException
            || e instanceof LinkageError
            || e instanceof java.util.MissingResourceException
        ? kind + ": " + message
        : message;
  }

  private static boolean has(PromptEntry prompt, String argument) {
    return prompt != null && prompt.message.getArgumentsList().stream().anyMatch(a -> a.getName().equals(argument));
  }

  private static boolean has(TemplateEntry template, String variable) {
    return template != null && template.template.variables.contains(variable);
  }

  // Serving.

  /** Logs warnings about probable mistakes in definitions, with their lines. */
  void warn() {
    System.Logger log = System.getLogger("mcpbridge");
    if (tools.isEmpty() && resources.isEmpty() && templates.isEmpty() && prompts.isEmpty()) {
      log.log(System.Logger.Level.WARNING, name + " has no tools, resources or prompts yet");
    }
    for (ToolEntry tool : tools.values()) {
      if (tool.message.getDescription().isBlank()) {
        String fix = "has no description, which is what models choose tools by; write @Tool(description = \"...\")";
        log.log(System.Logger.Level.WARNING, tool.where.get() + ": tool \"" + tool.message.getName() + "\" " + fix);
      }
    }
  }

  /**
   * Throws a DefinitionException if a completion is for a prompt or template that does not exist. {@link #run} calls it
   * first.
   */
  public void check() {
    List<DefinitionException> mistakes = new ArrayList<>();
    completers.forEach(
        (what, completer) -> {
          boolean ofPrompt = what.kind.equals("prompt");
          if (ofPrompt
              ? has(prompts.get(what.definition), what.argument)
              : has(templates.get(what.definition), what.argument)) {
            return;
          }
          String kind = ofPrompt ? "prompt" : "resource template";
          Collection<String> names = ofPrompt ? prompts.keySet() : templates.keySet();
          String why;
          if (names.contains(what.definition)) {
            why = kind + " \"" + what.definition + "\" has no \"" + what.argument + "\", which this completes";
          } else {
            String template =
                templates.values().stream()
                    .filter(t -> t.message.getName().equals(what.definition))
                    .map(t -> t.message.getUriTemplate())
                    .findFirst()
                    .orElse(null);
            String close = Names.close(what.definition, names);
            why =
                "there is no " + kind + " \"" + what.definition + "\", which this completes"
                    + (!ofPrompt && template != null
                        ? "; write its URI template, \"" + template + "\", and not its name"
                        : close == null ? "" : "; did you mean \"" + close + "\"?");
          }
          mistakes.add(new DefinitionException(completer.where.get(), why));
        });
    if (!mistakes.isEmpty()) {
      throw new DefinitionException(mistakes);
    }
  }

  String name() {
    return name;
  }

  int threads() {
    return threads;
  }

  /**
   * Serves until shutdown: the bridge that launched this program, or clients at an address. Then it exits.
   *
   * <p>{@code --listen} in the arguments of the program is such an address: {@code 127.0.0.1:50051} or {@code
   * unix:/run/tools.sock}. It has no TLS: use a loopback address.
   */
  public void run(String... args) {
    Serve.run(this, args);
  }
}
