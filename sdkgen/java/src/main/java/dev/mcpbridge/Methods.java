package dev.mcpbridge;

import dev.mcpbridge.v1.Icon;
import dev.mcpbridge.v1.PromptArgument;
import dev.mcpbridge.v1.ToolAnnotations;
import dev.mcpbridge.v1.ToolExecution;
import java.lang.annotation.Annotation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.Parameter;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JavaType;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectReader;
import tools.jackson.databind.node.ObjectNode;

/** Creates tools, resources, prompts and completions from annotated methods. */
final class Methods {
  private final App app;
  private final Object object; // Null for a class with static methods.
  private final Method method;
  private final String kind;

  private Methods(App app, Object object, Method method, String kind) {
    this.app = app;
    this.object = object;
    this.method = method;
    this.kind = kind;
  }

  /** Adds the methods of an object, and all mistakes to a list, each with its line. */
  static void add(App app, Object from, List<DefinitionException> mistakes) {
    Class<?> type = from instanceof Class<?> c ? c : from.getClass();
    List<Method> methods = new ArrayList<>();
    for (Class<?> c = type; c != null && c != Object.class; c = c.getSuperclass()) {
      for (Method m : c.getDeclaredMethods()) {
        if (!m.isSynthetic() && methods.stream().noneMatch(overriding -> overrides(overriding, m))) {
          methods.add(m);
        }
      }
    }
    // The JVM returns them in any order; lists must be stable.
    methods.sort(Comparator.comparing(Method::getName).thenComparing(Method::toString));
    Object object = from instanceof Class ? null : from;
    boolean[] added = {false};
    for (Method m : methods) {
      try {
        addIfAnnotated(m, Tool.class, a -> new Methods(app, object, m, "tool").tool(a), added);
        addIfAnnotated(m, Resource.class, a -> new Methods(app, object, m, "resource").resource(a), added);
        addIfAnnotated(
            m, ResourceTemplate.class, a -> new Methods(app, object, m, "resource template").template(a), added);
        addIfAnnotated(m, Prompt.class, a -> new Methods(app, object, m, "prompt").prompt(a), added);
        addIfAnnotated(
            m, CompletePrompt.class, a -> new Methods(app, object, m, "completion").completePrompt(a), added);
        addIfAnnotated(
            m,
            CompleteResourceTemplate.class,
            a -> new Methods(app, object, m, "completion").completeTemplate(a),
            added);
      } catch (DefinitionException e) {
        mistakes.add(e);
      }
    }
    if (!added[0]) {
      mistakes.add(
          new DefinitionException(
              type.getSimpleName()
                  + " has no method with @Tool, @Resource, @ResourceTemplate or @Prompt"
                  + (object == null ? " that is static" : "")));
    }
  }

  /** Reports whether an annotated method overrides an inherited one. */
  private static boolean overrides(Method overriding, Method m) {
    return overriding.getName().equals(m.getName())
        && Arrays.equals(overriding.getParameterTypes(), m.getParameterTypes())
        && !Modifier.isPrivate(m.getModifiers())
        && overriding.getAnnotations().length > 0;
  }

  private static <A extends Annotation> void addIfAnnotated(
      Method m, Class<A> annotation, Consumer<A> add, boolean[] added) {
    A a = m.getAnnotation(annotation);
    if (a != null) {
      added[0] = true;
      add.accept(a);
    }
  }

  /** Returns an error that names the method, and the parameter if it is not null. */
  private DefinitionException invalid(Parameter parameter, String message) {
    String at = method.getDeclaringClass().getSimpleName() + "." + method.getName();
    if (parameter != null) {
      int index = Arrays.asList(method.getParameters()).indexOf(parameter) + 1;
      at += ", parameter " + index + " (" + parameter.getType().getSimpleName() + " " + parameter.getName() + ")";
    }
    return new DefinitionException(SourceLine.of(method), at + ": " + message);
  }

  private String where() {
    return SourceLine.of(method);
  }

  private void makeAccessible() {
    if (object == null && !Modifier.isStatic(method.getModifiers())) {
      throw invalid(
          null, "it is not static; add an object: new " + method.getDeclaringClass().getSimpleName() + "(...)");
    }
    try {
      method.setAccessible(true);
    } catch (RuntimeException e) {
      throw invalid(null, "it cannot be called from here: " + e.getMessage());
    }
  }

  private String name(String explicit) {
    return explicit.isEmpty() ? method.getName() : explicit;
  }

  private String name(Parameter parameter, String explicit) {
    if (!explicit.isEmpty()) {
      return explicit;
    }
    if (!parameter.isNamePresent()) {
      String annotation = kind.equals("tool") ? "ToolArg" : "PromptArg";
      throw invalid(
          parameter,
          "its name is not in the class file; compile with javac -parameters, or write @"
              + annotation
              + "(name = \"...\")");
    }
    return parameter.getName();
  }

  private static Object contextArgument(Class<?> type, Context ctx) {
    if (type == Context.class || type == Progress.class || type == Cancellation.class || type == Questions.class) {
      return ctx;
    }
    return type == Log.class ? ctx.log() : null;
  }

  private static boolean isContextType(Class<?> type) {
    return type == Context.class
        || type == Progress.class
        || type == Cancellation.class
        || type == Questions.class
        || type == Log.class;
  }

  private Object call(Object... arguments) throws Exception {
    try {
      return method.invoke(object, arguments);
    } catch (InvocationTargetException e) {
      throw App.unwrapped(e.getCause());
    }
  }

  /** Returns the return type of the method, or if that is a CompletionStage the type of its value. */
  private Type returnType() {
    Type type = method.getGenericReturnType();
    if (type instanceof ParameterizedType p
        && p.getRawType() instanceof Class<?> raw
        && CompletionStage.class.isAssignableFrom(raw)) {
      return p.getActualTypeArguments()[0];
    }
    return type;
  }

  // Tools.

  private void tool(Tool a) {
    makeAccessible();
    String name = name(a.name());
    List<Schema.Parameter> parameters = new ArrayList<>();
    Parameter[] all = method.getParameters();
    ObjectReader[] readers = new ObjectReader[all.length];
    String[] names = new String[all.length];
    for (int i = 0; i < all.length; i++) {
      if (isContextType(all[i].getType())) {
        continue;
      }
      ToolArg arg = all[i].getAnnotation(ToolArg.class);
      names[i] = name(all[i], arg == null ? "" : arg.name());
      String why = Types.unreadable(all[i].getParameterizedType());
      if (why != null) {
        throw invalid(all[i], why);
      }
      readers[i] = Json.MAPPER.readerFor(Json.MAPPER.constructType(all[i].getParameterizedType()));
      parameters.add(new Schema.Parameter(names[i], all[i], arg));
    }
    Schema.Arguments arguments;
    try {
      arguments = new Schema.Arguments(name, Schema.of(parameters), true);
    } catch (RuntimeException e) {
      throw invalid(
          invalidParameter(parameters),
          "tool \"" + name + "\": " + (e instanceof DefinitionException d ? d.what : e.getMessage()));
    }
    for (Schema.Parameter p : parameters) {
      if (p.parameter().getType().isPrimitive()
          && !p.required()
          && !arguments.schema.get("properties").get(p.name()).has("default")) {
        throw invalid(
            p.parameter(),
            "it may be missing, and "
                + p.parameter().getType()
                + " has no null; give it a defaultValue, or use Optional");
      }
      checkDefault(p, arguments);
    }
    var message = dev.mcpbridge.v1.Tool.newBuilder().setName(name);
    if (!a.title().isEmpty()) {
      message.setTitle(a.title());
    }
    if (!a.description().isEmpty()) {
      message.setDescription(a.description());
    }
    for (String icon : a.icons()) {
      message.addIcons(Icon.newBuilder().setSrc(icon));
    }
    var hints = ToolAnnotations.newBuilder();
    hint(a.readOnly(), hints::setReadOnlyHint);
    hint(a.destructive(), hints::setDestructiveHint);
    hint(a.idempotent(), hints::setIdempotentHint);
    hint(a.openWorld(), hints::setOpenWorldHint);
    Handler<ObjectNode, Object> handler =
        (json, ctx) -> {
          Object[] values = new Object[all.length];
          for (int i = 0; i < all.length; i++) {
            values[i] =
                readers[i] == null
                    ? contextArgument(all[i].getType(), ctx)
                    : read(arguments, names[i], readers[i], json.get(names[i]));
          }
          return call(values);
        };
    try {
      ToolBuilder.setTask(
          message, a.task(), ToolExecution.newBuilder().setRetry(a.retry()).setStartsLater(a.startsLater()));
      ToolBuilder.setUi(message, a.ui());
      boolean nullable = Schema.nullable(method) || Schema.nullable(method.getAnnotatedReturnType());
      ToolBuilder.add(app, message, hints, arguments, returnType(), nullable, handler, this::where);
    } catch (DefinitionException e) {
      throw invalid(null, e.what);
    }
  }

  private static void hint(Hint hint, Consumer<Boolean> set) {
    if (hint != Hint.UNKNOWN) {
      set.accept(hint == Hint.YES);
    }
  }

  /** Returns the parameter for which no schema can be generated. */
  private static Parameter invalidParameter(List<Schema.Parameter> parameters) {
    for (Schema.Parameter p : parameters) {
      try {
        Schema.of(List.of(p));
      } catch (RuntimeException e) {
        return p.parameter();
      }
    }
    return null;
  }

  private void checkDefault(Schema.Parameter p, Schema.Arguments arguments) {
    JsonNode value = arguments.schema.get("properties").get(p.name()).get("default");
    if (value != null) {
      try {
        Json.MAPPER.readerFor(Json.MAPPER.constructType(p.parameter().getParameterizedType())).readValue(value);
      } catch (JacksonException e) {
        throw invalid(p.parameter(), "its default value is invalid: " + e.getOriginalMessage());
      }
      String why = arguments.defaultViolation(p.name());
      if (why != null) {
        throw invalid(p.parameter(), "its default value is invalid: " + why);
      }
    }
  }

  private static Object read(Schema.Arguments arguments, String name, ObjectReader reader, JsonNode value) {
    Class<?> type = reader.getValueType().getRawClass();
    if (type == String.class && value != null && value.isString()) {
      return value.stringValue();
    }
    if (value == null) {
      return Schema.isOptional(type) ? reader.readValue(tools.jackson.databind.node.NullNode.getInstance()) : null;
    }
    try {
      return reader.readValue(value);
    } catch (JacksonException e) {
      throw arguments.conversionError(name, e);
    }
  }

  // Resources and prompts: their arguments are text.

  private void resource(Resource a) {
    makeAccessible();
    for (Parameter p : method.getParameters()) {
      if (!isContextType(p.getType())) {
        throw invalid(p, "a resource has no arguments; a @ResourceTemplate has");
      }
    }
    var builder = app.resource(a.uri()).name(name(a.name()));
    describe(builder, a.title(), a.description(), a.mimeType());
    try {
      builder.handle(
          (none, ctx) -> call(convertTexts(Map.of(), new String[method.getParameterCount()], ctx)),
          Map.of(),
          this::where);
    } catch (DefinitionException e) {
      throw invalid(null, e.what);
    }
  }

  private static void describe(ResourceBuilder<?> builder, String title, String description, String mimeType) {
    if (!title.isEmpty()) {
      builder.title(title);
    }
    if (!description.isEmpty()) {
      builder.description(description);
    }
    if (!mimeType.isEmpty()) {
      builder.mimeType(mimeType);
    }
  }

  private void template(ResourceTemplate a) {
    makeAccessible();
    Template template;
    try {
      template = new Template(a.uriTemplate());
    } catch (IllegalArgumentException e) {
      throw invalid(null, "the template " + a.uriTemplate() + ": " + e.getMessage());
    }
    String[] names = argumentNames();
    for (int i = 0; i < names.length; i++) {
      Parameter p = method.getParameters()[i];
      if (names[i] != null && !template.variables.contains(names[i])) {
        throw invalid(p, "the template " + a.uriTemplate() + " has no {" + names[i] + "}");
      }
      if (names[i] != null && template.optional.contains(names[i]) && p.getType().isPrimitive()) {
        throw invalid(p, "it may be missing in a URI, and " + p.getType() + " has no null; use Optional");
      }
    }
    var builder = app.resourceTemplate(a.uriTemplate()).name(name(a.name()));
    describe(builder, a.title(), a.description(), a.mimeType());
    try {
      builder.handle((variables, ctx) -> call(convertTexts(variables, names, ctx)), choices(names), this::where);
    } catch (DefinitionException e) {
      throw invalid(null, e.what);
    }
  }

  private void prompt(Prompt a) {
    makeAccessible();
    var message = dev.mcpbridge.v1.Prompt.newBuilder().setName(name(a.name()));
    if (!a.title().isEmpty()) {
      message.setTitle(a.title());
    }
    if (!a.description().isEmpty()) {
      message.setDescription(a.description());
    }
    String[] names = argumentNames();
    for (int i = 0; i < names.length; i++) {
      if (names[i] == null) {
        continue;
      }
      Parameter p = method.getParameters()[i];
      PromptArg arg = p.getAnnotation(PromptArg.class);
      var argument = PromptArgument.newBuilder().setName(names[i]);
      if (arg != null && !arg.description().isEmpty()) {
        argument.setDescription(arg.description());
      }
      boolean optional = Schema.isOptional(p.getType()) || (arg != null && !arg.required()) || Schema.nullable(p);
      if (optional && p.getType().isPrimitive()) {
        throw invalid(p, "it may be missing, and " + p.getType() + " has no null; use Optional");
      }
      message.addArguments(argument.setRequired(!optional));
    }
    try {
      app.put(
          new App.PromptEntry(
              message.build(),
              choices(names),
              (arguments, ctx) -> call(convertTexts(arguments, names, ctx)),
              this::where));
    } catch (DefinitionException e) {
      throw invalid(null, e.what);
    }
  }

  private String[] argumentNames() {
    Parameter[] all = method.getParameters();
    String[] names = new String[all.length];
    for (int i = 0; i < all.length; i++) {
      if (!isContextType(all[i].getType())) {
        PromptArg arg = all[i].getAnnotation(PromptArg.class);
        names[i] = name(all[i], arg == null ? "" : arg.name());
        String why = Types.unreadable(all[i].getParameterizedType());
        if (why != null) {
          throw invalid(all[i], why);
        }
        Class<?> type = textType(all[i]).getRawClass();
        if (type.isRecord()
            || type.isArray()
            || Collection.class.isAssignableFrom(type)
            || Map.class.isAssignableFrom(type)) {
          throw invalid(all[i], "text cannot be converted to its type; use String, a number, boolean or an enum");
        }
      }
    }
    return names;
  }

  /** Returns the type of a text parameter, without Optional. */
  private static JavaType textType(Parameter p) {
    JavaType type = Json.MAPPER.constructType(p.getParameterizedType());
    return type.isReferenceType() ? type.getReferencedType() : type;
  }

  /** Returns the values of enum parameters, by name. */
  private Map<String, List<String>> choices(String[] names) {
    Map<String, List<String>> choices = new HashMap<>();
    for (int i = 0; i < names.length; i++) {
      if (names[i] != null && textType(method.getParameters()[i]).isEnumType()) {
        choices.put(names[i], values(textType(method.getParameters()[i])));
      }
    }
    return choices;
  }

  private static List<String> values(JavaType type) {
    return Arrays.stream(type.getRawClass().getEnumConstants())
        .map(c -> Json.MAPPER.valueToTree(c).asString())
        .toList();
  }

  private Object[] convertTexts(Map<String, String> texts, String[] names, Context ctx) {
    Parameter[] all = method.getParameters();
    Object[] values = new Object[all.length];
    for (int i = 0; i < all.length; i++) {
      if (names[i] == null) {
        values[i] = contextArgument(all[i].getType(), ctx);
        continue;
      }
      String text = texts.get(names[i]);
      if (text == null && !Schema.isOptional(all[i].getType())) {
        continue;
      }
      try {
        values[i] = Json.MAPPER.convertValue(text, Json.MAPPER.constructType(all[i].getParameterizedType()));
      } catch (JacksonException e) {
        JavaType type = textType(all[i]);
        String expected =
            type.isEnumType() ? "one of " + String.join(", ", values(type)) : type.getRawClass().getSimpleName();
        throw new McpException(
            -32602,
            kind + " " + method.getName() + ": " + names[i] + ": expected " + expected + ", got \"" + text + "\"");
      }
    }
    return values;
  }

  // Completions.

  private void completePrompt(CompletePrompt a) {
    app.complete(a.value(), argument(a.argument()), this::complete, this::where);
  }

  private void completeTemplate(CompleteResourceTemplate a) {
    app.completeVariable(a.value(), argument(a.argument()), this::complete, this::where);
  }

  private String argument(String explicit) {
    makeAccessible();
    Class<?> type = method.getReturnType();
    if (!Collection.class.isAssignableFrom(type) && type != String[].class) {
      throw invalid(null, "a completion returns the values to propose: a List<String>");
    }
    Parameter typed = null;
    for (Parameter p : method.getParameters()) {
      if (p.getType() == String.class && typed == null) {
        typed = p;
      } else if (p.getType() != Map.class) {
        throw invalid(
            p, "a completion takes what is typed so far, a String, and the other arguments, a Map<String, String>");
      }
    }
    if (typed == null) {
      if (explicit.isEmpty()) {
        throw invalid(
            null,
            "it names no argument to complete; add a String parameter with its name, or write argument = \"...\"");
      }
      return explicit;
    }
    if (explicit.isEmpty() && !typed.isNamePresent()) {
      String fix = "compile with javac -parameters, or write argument = \"...\"";
      throw invalid(typed, "the name of the argument to complete is not in the class file; " + fix);
    }
    return name(typed, explicit);
  }

  @SuppressWarnings("unchecked") // argument has checked the return type.
  private Collection<String> complete(String typed, Map<String, String> others) throws Exception {
    Object[] values = Arrays.stream(method.getParameterTypes()).map(t -> t == String.class ? typed : others).toArray();
    Object proposed = call(values);
    return proposed instanceof String[] array ? List.of(array) : (Collection<String>) proposed;
  }
}
