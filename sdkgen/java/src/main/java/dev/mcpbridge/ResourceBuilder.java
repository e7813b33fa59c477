package dev.mcpbridge;

import dev.mcpbridge.v1.Annotations;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/** Builds a resource or a template. {@link #handle} adds it. */
public final class ResourceBuilder<A> {
  private static final Pattern SCHEME = Pattern.compile("[A-Za-z][A-Za-z0-9+.-]*:");

  private static final String UI_TYPE = "text/html;profile=mcp-app";

  private final App app;
  private final dev.mcpbridge.v1.Resource.Builder resource; // Null for a template.
  private final dev.mcpbridge.v1.ResourceTemplate.Builder template;

  private ResourceBuilder(
      App app, dev.mcpbridge.v1.Resource.Builder resource, dev.mcpbridge.v1.ResourceTemplate.Builder template) {
    this.app = app;
    this.resource = resource;
    this.template = template;
  }

  static ResourceBuilder<Void> resource(App app, String uri) {
    return new ResourceBuilder<>(app, dev.mcpbridge.v1.Resource.newBuilder().setUri(uri).setName(uri), null);
  }

  static ResourceBuilder<Map<String, String>> template(App app, String uriTemplate) {
    var template = dev.mcpbridge.v1.ResourceTemplate.newBuilder().setUriTemplate(uriTemplate).setName(uriTemplate);
    return new ResourceBuilder<>(app, null, template);
  }

  /** The name for programs. If empty, the URI. */
  public ResourceBuilder<A> name(String name) {
    if (resource != null) {
      resource.setName(name);
    } else {
      template.setName(name);
    }
    return this;
  }

  /** The display name. */
  public ResourceBuilder<A> title(String title) {
    if (resource != null) {
      resource.setTitle(title);
    } else {
      template.setTitle(title);
    }
    return this;
  }

  /** The description, for the model. */
  public ResourceBuilder<A> description(String description) {
    if (resource != null) {
      resource.setDescription(description);
    } else {
      template.setDescription(description);
    }
    return this;
  }

  /** The media type. If not set, that of a user interface for {@code ui://}, or else of text, bytes or JSON. */
  public ResourceBuilder<A> mimeType(String mimeType) {
    if (resource != null) {
      resource.setMimeType(mimeType);
    } else {
      template.setMimeType(mimeType);
    }
    return this;
  }

  /** Hints for its use. */
  public ResourceBuilder<A> annotations(Annotations annotations) {
    if (resource != null) {
      resource.setAnnotations(annotations);
    } else {
      template.setAnnotations(annotations);
    }
    return this;
  }

  /** Adds the resource or template, also while the app runs. A template's handler receives the variables' values. */
  public App handle(Handler<? super A, ?> handler) {
    return handle(handler, Map.of(), App.callerLine());
  }

  @SuppressWarnings("unchecked") // A is Void for a resource, and a map for a template: see resource and template.
  App handle(Handler<? super A, ?> handler, Map<String, List<String>> choices, Supplier<String> where) {
    String uri = resource != null ? resource.getUri() : template.getUriTemplate();
    if (!SCHEME.matcher(uri).lookingAt()) {
      throw new DefinitionException("resource \"" + uri + "\": a URI begins with a scheme, such as file:///");
    }
    boolean typed = resource != null ? resource.hasMimeType() : template.hasMimeType();
    if (!typed && uri.startsWith(ToolBuilder.UI_SCHEME)) {
      mimeType(UI_TYPE);
    }
    if (resource != null) {
      app.put(new App.ResourceEntry(resource.build(), (Handler<Void, ?>) handler, where));
      return app;
    }
    Template parsed;
    try {
      parsed = new Template(template.getUriTemplate());
    } catch (IllegalArgumentException e) {
      throw new DefinitionException("resource template \"" + template.getUriTemplate() + "\": " + e.getMessage());
    }
    app.put(new App.TemplateEntry(template.build(), parsed, choices, (Handler<Map<String, String>, ?>) handler, where));
    return app;
  }
}
