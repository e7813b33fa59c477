package dev.mcpbridge;

import dev.mcpbridge.v1.PromptArgument;
import java.util.Map;

/** A prompt in the making. {@link #handle} adds it. */
public final class PromptBuilder {
  private final App app;
  private final dev.mcpbridge.v1.Prompt.Builder message;

  PromptBuilder(App app, String name) {
    this.app = app;
    this.message = dev.mcpbridge.v1.Prompt.newBuilder().setName(name);
  }

  /** Its name for people. */
  public PromptBuilder title(String title) {
    message.setTitle(title);
    return this;
  }

  /** What it is for. */
  public PromptBuilder description(String description) {
    message.setDescription(description);
    return this;
  }

  /** Something it cannot do without. */
  public PromptBuilder argument(String name, String description) {
    message.addArguments(PromptArgument.newBuilder().setName(name).setDescription(description).setRequired(true));
    return this;
  }

  /** Something it can use. */
  public PromptBuilder optionalArgument(String name, String description) {
    message.addArguments(PromptArgument.newBuilder().setName(name).setDescription(description));
    return this;
  }

  /** Adds it, also while the app runs. */
  public App handle(Handler<? super Map<String, String>, ?> handler) {
    app.put(new App.PromptEntry(message.build(), Map.of(), handler::handle, App.here()));
    return app;
  }
}
