package dev.mcpbridge;

import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.EmbeddedResource;
import java.util.Objects;

/**
 * An embedded resource to return: {@code new Embedded("file:///notes.txt", "the text")}, with text, bytes, or anything
 * else as JSON.
 */
public record Embedded(String uri, Object data, String mimeType) {
  public Embedded {
    Objects.requireNonNull(uri);
    Objects.requireNonNull(data);
  }

  public Embedded(String uri, Object data) {
    this(uri, data, null);
  }

  ContentBlock block() {
    var resource = EmbeddedResource.newBuilder().setResource(Content.resource(data, uri, mimeType));
    return ContentBlock.newBuilder().setResource(resource).build();
  }
}
