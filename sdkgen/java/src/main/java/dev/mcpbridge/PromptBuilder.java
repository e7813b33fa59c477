package dev.mcpbridge;

import dev.mcpbridge.v1.PromptArgument;
import java.util.Map;

/** Builds a prompt. {@link #handle} adds it. */
public final class PromptBuilder {
  private final App app;
  private final dev.mcpbridge.v1.Prompt.Builder message;

  PromptBuilder(App app, String name) {
    this.app = app;
    this.message = dev.mcpbridge.v1.Prompt.newBuilder().setName(name);
  }

  /** The display name. */
  public PromptBuilder title(String title) {
    message.setTitle(title);
    return this;
  }

  /** The description. */
  public PromptBuilder description(String description) {
    message.setDescription(description);
    return this;
  }

  /** Adds a required argument. */
  public PromptBuilder argument(String name, String description) {
    message.addArguments(PromptArgument.newBuilder().setName(name).setDescription(description).setRequired(true));
    return this;
  }

  /** Adds an optional argument. */
  public PromptBuilder optionalArgument(String name, String description) {
    message.addArguments(PromptArgument.newBuilder().setName(name).setDescription(description));
    return this;
  }

  /** Adds the prompt, also while the app runs. */
  public App handle(Handler<? super Map<String, String>, ?> handler) {
    app.put(new App.PromptEntry(message.build(), Map.of(), handler::handle, App.callerLine()));
    return app;
  }
}
