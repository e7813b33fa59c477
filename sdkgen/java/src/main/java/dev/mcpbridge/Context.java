package dev.mcpbridge;

import com.google.protobuf.ByteString;
import com.google.protobuf.Message;
import dev.mcpbridge.v1.CallContext;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.ClientCapabilities;
import dev.mcpbridge.v1.CreateMessageRequest;
import dev.mcpbridge.v1.ElicitForm;
import dev.mcpbridge.v1.ElicitRequest;
import dev.mcpbridge.v1.ElicitUrl;
import dev.mcpbridge.v1.Implementation;
import dev.mcpbridge.v1.InputRequest;
import dev.mcpbridge.v1.InputRequired;
import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.InputResponse.ResponseCase;
import dev.mcpbridge.v1.ListRootsRequest;
import dev.mcpbridge.v1.LogLevel;
import dev.mcpbridge.v1.LogMessage;
import dev.mcpbridge.v1.Principal;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.function.Supplier;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ArrayNode;
import tools.jackson.databind.node.JsonNodeFactory;
import tools.jackson.databind.node.ObjectNode;

/**
 * One call of a tool, resource or prompt. A parameter of this type receives it.
 *
 * <p>A call can take several rounds, see {@link Questions}. To ask several things in one round, see {@link #askAll}.
 */
public final class Context implements Questions, Progress, Cancellation {
  /** The limit of the contract; the bridge refuses more. */
  static final int MAX_STATE = 32 * 1024;

  private static final ThreadLocal<Context> CURRENT = new ThreadLocal<>();

  /** Receives the events of a call, one at a time. */
  interface Events {
    void progress(dev.mcpbridge.v1.Progress progress);

    void log(LogMessage message);

    void taskStarted();
  }

  private final App app;
  private final Message request;
  private final CallContext call;
  private final Map<String, InputResponse> responses;
  private final ByteString state; // Null in the first round.
  private final Events events;
  private final Log log = new Log(this, null);
  private final Questions questionsNow = new RoundQuestions(null, true);

  private volatile boolean cancelled;
  private volatile boolean ended; // Whether the round has ended because a question has no answer yet.
  private volatile boolean sent; // Whether an event was sent.
  private volatile boolean repeated; // Whether an event before an answered question was sent again in this round.
  private final Object lock = new Object(); // Guards thread and cancelActions.
  private final List<Runnable> cancelActions = new ArrayList<>(0);
  private Thread thread; // The thread that runs the handler.

  // Guarded by this. Loaded from the state by the first question.
  private Map<String, InputResponse> answers;
  private final Map<String, JsonNode> once = new LinkedHashMap<>();
  private final Set<String> asked = new HashSet<>();
  private final Map<String, InputRequest> questions = new LinkedHashMap<>();
  private final Map<String, Integer> counts = new HashMap<>();

  Context(
      App app,
      Message request,
      CallContext call,
      Map<String, InputResponse> responses,
      ByteString state,
      Events events) {
    this.app = app;
    this.request = request;
    this.call = call;
    this.responses = responses;
    this.state = state;
    this.events = events;
  }

  // The caller.

  /** The name and version of the client, as it declares them. Not verified. */
  public Implementation clientInfo() {
    return call.getClientInfo();
  }

  /** The capabilities of the client. Questions that it does not support throw {@link UnsupportedException}. */
  public ClientCapabilities clientCapabilities() {
    return call.getClientCapabilities();
  }

  /** The MCP revision of the call, such as "2026-07-28". */
  public String protocolVersion() {
    return call.getVerified().getProtocolVersion();
  }

  /** The authenticated caller, if authentication is configured. */
  public Optional<Principal> principal() {
    return call.getVerified().hasPrincipal() ? Optional.of(call.getVerified().getPrincipal()) : Optional.empty();
  }

  /** The HTTP headers in serve.http.passHeaders of the bridge, by lower-case names. */
  public Map<String, String> headers() {
    return call.getVerified().getHeadersMap();
  }

  /** MCP {@code _meta} of the request. */
  public ObjectNode meta() {
    return Json.object(call.getMeta());
  }

  /**
   * The unmodified request: a {@code CallToolRequest}, {@code ReadResourceRequest} or {@code GetPromptRequest}. Throws
   * {@link ClassCastException} if it is of another type.
   */
  public <M extends Message> M request(Class<M> type) {
    return type.cast(request);
  }

  /**
   * The request state of the InputRequired that the previous round of this call returned. For handlers that return
   * InputRequired themselves; {@link #elicit} and the other questions use the state too, so a handler cannot combine
   * both.
   */
  public Optional<ByteString> requestState() {
    return Optional.ofNullable(state);
  }

  /** The answers to the InputRequired of the previous round, by their keys. */
  public Map<String, InputResponse> inputResponses() {
    return responses;
  }

  // Progress, tasks, logs and changes.

  /**
   * Makes the call of a tool with {@link Tool#startsLater} a task, for example after a question or if there is much to
   * do. It has no effect if the call is a task already, or the client does not support tasks.
   */
  public void startTask() {
    check();
    if (request instanceof CallToolRequest) {
      events.taskStarted();
    }
  }

  /** The log of the call. Records below the level that the caller requested are not sent. */
  public Log log() {
    return log;
  }

  @Override
  public void progress(double done, Double total, String message) {
    check();
    if (!call.getProgressWanted()) {
      return;
    }
    var progress = dev.mcpbridge.v1.Progress.newBuilder().setProgress(done);
    if (total != null) {
      progress.setTotal(total);
    }
    if (message != null) {
      progress.setMessage(message);
    }
    sent = true;
    events.progress(progress.build());
  }

  @Override
  public boolean isCancelled() {
    return cancelled;
  }

  @Override
  public void onCancelled(Runnable action) {
    synchronized (lock) {
      if (!cancelled) {
        cancelActions.add(action);
        return;
      }
    }
    action.run();
  }

  @Override
  public void check() {
    if (cancelled) {
      throw new CancellationException("the call was canceled");
    }
  }

  /** Notifies subscribers that the resource with this URI has changed, like {@link App#notifyUpdated}. */
  public void notifyUpdated(String uri) {
    app.notifyUpdated(uri);
  }

  /** Tools of this app as clients receive them, for {@link #sample(CreateMessageRequest)}. */
  public List<dev.mcpbridge.v1.Tool> tools(String... names) {
    return Arrays.stream(names).map(app::toolMessage).toList();
  }

  // Questions.

  @Override
  public <T> Answer<T> elicit(String message, Class<T> form) {
    return questionsNow.elicit(message, form);
  }

  @Override
  public <T> Answer<T> elicit(String message, Choice<T> choice) {
    return questionsNow.elicit(message, choice);
  }

  @Override
  public Answer<ObjectNode> elicitJson(String message, String schema) {
    return questionsNow.elicitJson(message, schema);
  }

  @Override
  public Answer<Void> elicitUrl(String message, String url) {
    return questionsNow.elicitUrl(message, url);
  }

  @Override
  public Sample sample(CreateMessageRequest request) {
    return questionsNow.sample(request);
  }

  @Override
  public Sample sample(Map<String, ?> params) {
    return questionsNow.sample(params);
  }

  @Override
  public Roots roots() {
    return questionsNow.roots();
  }

  @Override
  public Questions key(String key) {
    return questionsNow.key(key);
  }

  /**
   * Questions that end the round only when the first answer is read, so that all of them are asked in one round:
   *
   * <pre>{@code
   * var all = ctx.askAll();
   * var size = all.elicit("Which size?", Size.class);
   * var colour = all.elicit("Which colour?", Colour.class);
   * return order(size.data(), colour.data());
   * }</pre>
   *
   * If no answer is read, no question is sent.
   */
  public Questions askAll() {
    return new RoundQuestions(null, false);
  }

  /** Asks questions, by the key if it is not null. If {@code immediate}, a missing answer ends the round at once. */
  private final class RoundQuestions implements Questions {
    private final String key;
    private final boolean immediate;

    RoundQuestions(String key, boolean immediate) {
      this.key = key;
      this.immediate = immediate;
    }

    private <Q extends Question> Q withAnswer(Q question) {
      if (immediate) {
        question.requireAnswer();
      }
      return question;
    }

    @Override
    public <T> Answer<T> elicit(String message, Class<T> form) {
      return withAnswer(askForm(key, message, () -> Schema.Form.of(form)));
    }

    @Override
    public <T> Answer<T> elicit(String message, Choice<T> choice) {
      return withAnswer(askForm(key, message, () -> choice.form));
    }

    @Override
    public Answer<ObjectNode> elicitJson(String message, String schema) {
      return withAnswer(askForm(key, message, () -> Schema.Form.of(schema)));
    }

    @Override
    public Answer<Void> elicitUrl(String message, String url) {
      return withAnswer(askUrl(key, message, url));
    }

    @Override
    public Sample sample(CreateMessageRequest request) {
      return withAnswer(
          askModel(key, InputRequest.newBuilder().setCreateMessage(request).build(), request.getToolsCount() > 0));
    }

    @Override
    public Sample sample(Map<String, ?> params) {
      boolean tools = params.get("tools") instanceof Collection<?> all && !all.isEmpty();
      String raw = Json.sorted(Map.of("method", "sampling/createMessage", "params", params));
      return withAnswer(askModel(key, InputRequest.newBuilder().setRaw(raw).build(), tools));
    }

    @Override
    public Roots roots() {
      Roots roots = askRoots(key);
      if (immediate) {
        roots.requireAnswer();
      }
      return roots;
    }

    @Override
    public Questions key(String key) {
      return new RoundQuestions(key, immediate);
    }
  }

  /** A function to call once. */
  public interface Step<T, X extends Exception> {
    T call() throws X;
  }

  /** A function to call once that returns nothing. */
  public interface Action<X extends Exception> {
    void run() throws X;
  }

  /** Calls the function in the first round only, and returns its result, which must be JSON, in every round. */
  public <T, X extends Exception> T once(String key, Class<T> type, Step<T, X> step) throws X {
    JsonNode value = stored(key);
    if (value == null) {
      T fresh = step.call();
      try {
        value = Json.MAPPER.valueToTree(fresh);
      } catch (JacksonException e) {
        throw new IllegalArgumentException(
            "once(\"" + key + "\") can remember only what can be JSON: " + e.getOriginalMessage(), e);
      }
      remember(key, value);
    }
    return Json.MAPPER.treeToValue(value, type); // The same value in every round.
  }

  /** Calls the function in the first round only. */
  public <X extends Exception> void once(String key, Action<X> step) throws X {
    if (stored(key) == null) {
      step.run();
      remember(key, JsonNodeFactory.instance.nullNode());
    }
  }

  private synchronized JsonNode stored(String key) {
    load();
    return once.get(key);
  }

  private synchronized void remember(String key, JsonNode value) {
    once.put(key, value);
  }

  private <T> Answer<T> askForm(String key, String message, Supplier<Schema.Form<T>> of) {
    ClientCapabilities can = clientCapabilities();
    // No mode means form, as in 2025-06-18.
    if (!can.hasElicitation() || (can.getElicitation().hasUrl() && !can.getElicitation().hasForm())) {
      throw new UnsupportedException(unsupportedMessage("show a form to its user", message));
    }
    Schema.Form<T> form = of.get();
    var request = ElicitForm.newBuilder().setMessage(message).setRequestedSchema(form.schema);
    var elicit = ElicitRequest.newBuilder().setForm(request);
    return new Answer<>(
        this, ask(key, ResponseCase.ELICIT, InputRequest.newBuilder().setElicit(elicit).build()), message, form);
  }

  private Answer<Void> askUrl(String key, String message, String url) {
    if (!clientCapabilities().getElicitation().hasUrl()) {
      throw new UnsupportedException(unsupportedMessage("open a web page for its user", message + " " + url));
    }
    var elicit = ElicitRequest.newBuilder().setUrl(ElicitUrl.newBuilder().setMessage(message).setUrl(url));
    return new Answer<>(
        this, ask(key, ResponseCase.ELICIT, InputRequest.newBuilder().setElicit(elicit).build()), message, null);
  }

  private Sample askModel(String key, InputRequest request, boolean tools) {
    ClientCapabilities can = clientCapabilities();
    if (!can.hasSampling()) {
      throw new UnsupportedException(
          "This client does not let tools ask its model. Answer this yourself and go on without the tool.");
    }
    if (tools && !can.getSampling().hasTools()) {
      throw new UnsupportedException(
          "This client does not give its model tools. Answer this yourself and go on without the tool.");
    }
    return new Sample(this, ask(key, ResponseCase.CREATE_MESSAGE, request));
  }

  private Roots askRoots(String key) {
    if (!clientCapabilities().hasRoots()) {
      throw new UnsupportedException(unsupportedMessage("list the folders that it works in", "Which folder is meant?"));
    }
    var request = InputRequest.newBuilder().setListRoots(ListRootsRequest.getDefaultInstance()).build();
    return new Roots(this, ask(key, ResponseCase.LIST_ROOTS, request));
  }

  private static String unsupportedMessage(String cannot, String question) {
    return "This client cannot "
        + cannot
        + ". Ask the user yourself: \""
        + question
        + "\", and call the tool again with the answer.";
  }

  /** Returns the answer to a question if it is of this kind or an error, or null. */
  private synchronized InputResponse ask(String explicitKey, ResponseCase kind, InputRequest request) {
    load();
    String key = explicitKey;
    if (key == null) {
      String digest = kind.name().toLowerCase(Locale.ROOT) + "-" + digest(request.toByteArray());
      int count = counts.merge(digest, 1, Integer::sum);
      key = count == 1 ? digest : digest + "-" + count;
    }
    asked.add(key);
    InputResponse answer = answers.get(key);
    repeated |= sent && answer != null;
    // An answer of another kind is ignored: the question is asked again.
    if (answer == null || !(answer.hasError() || answer.getResponseCase() == kind)) {
      questions.put(key, request.toBuilder().setKey(key).build());
      return null;
    }
    return answer;
  }

  private static String digest(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(Arrays.copyOf(MessageDigest.getInstance("SHA-256").digest(bytes), 6));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Loads the state of earlier rounds and the answers of the last one. */
  private void load() {
    if (answers != null) {
      return;
    }
    answers = new LinkedHashMap<>();
    if (state != null) {
      try {
        ObjectNode stored = Json.object(state.toStringUtf8());
        for (var e : stored.get("answers").properties()) {
          answers.put(e.getKey(), InputResponse.parseFrom(Base64.getDecoder().decode(e.getValue().asString())));
        }
        asked.addAll(answers.keySet());
        stored.get("asked").forEach(key -> asked.add(key.asString()));
        stored.get("once").properties().forEach(e -> once.put(e.getKey(), e.getValue()));
      } catch (Exception e) {
        throw new McpException(-32602, "the request's state is not one that this server returned");
      }
    }
    answers.putAll(responses);
  }

  // Internal methods.

  RoundEnd endRound() {
    ended = true;
    return new RoundEnd();
  }

  boolean ended() {
    return ended;
  }

  boolean repeated() {
    return repeated;
  }

  /** Returns the InputRequired of a round with questions. Throws IllegalStateException if the state is too large. */
  synchronized InputRequired inputRequired() {
    load();
    JsonNodeFactory nodes = JsonNodeFactory.instance;
    ObjectNode kept = nodes.objectNode();
    answers.forEach(
        (key, answer) -> {
          // Do not keep answers to questions that were not asked.
          if (asked.contains(key) && !questions.containsKey(key)) {
            kept.put(key, Base64.getEncoder().encodeToString(answer.toByteArray()));
          }
        });
    ArrayNode pending = nodes.arrayNode();
    questions.keySet().forEach(pending::add);
    ObjectNode stored = nodes.objectNode();
    stored.set("answers", kept);
    stored.set("asked", pending);
    stored.set("once", nodes.objectNode().setAll(once));
    ByteString bytes = ByteString.copyFromUtf8(Json.text(stored));
    if (bytes.size() > MAX_STATE) {
      Map<String, Integer> sizes = new HashMap<>();
      once.forEach((key, value) -> sizes.put("once(\"" + key + "\")", value.toString().length()));
      kept.forEachEntry((key, value) -> sizes.put("the answer " + key, value.toString().length()));
      var largest = sizes.entrySet().stream().max(Map.Entry.comparingByValue()).orElseThrow();
      throw new IllegalStateException(
          "the request state has " + bytes.size() + " bytes, more than the maximum of " + MAX_STATE
              + "; the largest part is " + largest.getKey() + ", " + largest.getValue() + " bytes");
    }
    return InputRequired.newBuilder().addAllInputRequests(questions.values()).setRequestState(bytes).build();
  }

  LogLevel logLevel() {
    return call.getLogLevel();
  }

  void emit(LogMessage message) {
    sent = true;
    events.log(message);
  }

  /** Returns the call that this thread handles, or null. */
  static Context current() {
    return CURRENT.get();
  }

  /** Sets this thread as the one that handles the call, and is interrupted when it is canceled. */
  void enter() {
    synchronized (lock) {
      thread = Thread.currentThread();
      CURRENT.set(this);
      if (cancelled) {
        thread.interrupt();
      }
    }
  }

  /** Undoes enter, so that later work of the thread is not interrupted. */
  void exit() {
    synchronized (lock) {
      thread = null;
      cancelActions.clear();
      CURRENT.remove();
      Thread.interrupted();
    }
  }

  void cancel() {
    List<Runnable> actions;
    synchronized (lock) {
      cancelled = true;
      actions = List.copyOf(cancelActions);
      cancelActions.clear();
      if (thread != null) {
        thread.interrupt();
      }
    }
    for (Runnable action : actions) {
      try {
        action.run();
      } catch (RuntimeException e) {
        System.getLogger("mcpbridge").log(System.Logger.Level.ERROR, "a cancellation action failed: " + e, e);
      }
    }
  }
}
