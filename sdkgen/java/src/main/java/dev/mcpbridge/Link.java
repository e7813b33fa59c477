package dev.mcpbridge;

import dev.mcpbridge.v1.ContentBlock;
import java.util.Objects;

/** A link to a resource, which clients may read: {@code new Link("file:///notes.txt")}. */
public record Link(String uri, String name, String description, String mimeType) {
  public Link {
    Objects.requireNonNull(uri);
    if (name == null) {
      String path = uri.replaceAll("/+$", "");
      name = path.substring(path.lastIndexOf('/') + 1);
      name = name.isEmpty() ? uri : name;
    }
  }

  public Link(String uri) {
    this(uri, null, null, null);
  }

  ContentBlock block() {
    var link = dev.mcpbridge.v1.Resource.newBuilder().setUri(uri).setName(name);
    if (description != null) {
      link.setDescription(description);
    }
    if (mimeType != null) {
      link.setMimeType(mimeType);
    }
    return ContentBlock.newBuilder().setResourceLink(link).build();
  }
}
