package dev.mcpbridge;

import com.google.protobuf.ByteString;
import com.google.protobuf.MessageLite;
import dev.mcpbridge.v1.AudioContent;
import dev.mcpbridge.v1.CallToolResult;
import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.EmbeddedResource;
import dev.mcpbridge.v1.GetPromptResult;
import dev.mcpbridge.v1.ImageContent;
import dev.mcpbridge.v1.InputRequired;
import dev.mcpbridge.v1.PromptMessage;
import dev.mcpbridge.v1.ReadResourceResult;
import dev.mcpbridge.v1.ResourceContents;
import dev.mcpbridge.v1.TextContent;
import dev.mcpbridge.v1.ToolResultContent;
import dev.mcpbridge.v1.ToolUseContent;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import tools.jackson.databind.JavaType;

/** Converts return values of tools, resources and prompts to results. */
final class Content {
  private Content() {}

  /** Types that determine the result. The messages are for exact control. */
  private static final List<Class<?>> BLOCKS =
      List.of(
          Image.class,
          Audio.class,
          Embedded.class,
          Link.class,
          ContentBlock.class,
          TextContent.class,
          ImageContent.class,
          AudioContent.class,
          EmbeddedResource.class,
          dev.mcpbridge.v1.Resource.class,
          ToolUseContent.class,
          ToolResultContent.class);

  private static boolean isBlock(Object value) {
    return BLOCKS.stream().anyMatch(type -> type.isInstance(value));
  }

  /** Reports whether a return type has an output schema: text, content and unspecific types have none. */
  static boolean structured(JavaType type) {
    Class<?> raw = type.getRawClass();
    if (type.isCollectionLikeType() || type.isArrayType() || raw == Optional.class) {
      // A list of text is structured content; a list of content is not.
      JavaType element = type.getContentType() == null ? type.containedTypeOrUnknown(0) : type.getContentType();
      return raw != byte[].class
          && raw != Optional.class
          && (element.getRawClass() == String.class || structured(element));
    }
    return raw != void.class
        && raw != Void.class
        && raw != Object.class
        && !CharSequence.class.isAssignableFrom(raw)
        && !MessageLite.class.isAssignableFrom(raw)
        && !tools.jackson.core.TreeNode.class.isAssignableFrom(raw)
        && !BLOCKS.contains(raw);
  }

  // Tools.

  /** Returns an error result for the model. */
  static CallToolResult failure(String message) {
    return CallToolResult.newBuilder().addContent(text(message)).setIsError(true).build();
  }

  /** Returns the result of a tool that returned value. {@code output} is null if its return type has no schema. */
  static MessageLite result(Object value, Schema.Output output, boolean allowsNull) {
    if (value instanceof CallToolResult || value instanceof InputRequired) {
      return (MessageLite) value;
    }
    if (value instanceof Optional<?> optional) {
      return result(optional.orElse(null), output, true);
    }
    CallToolResult.Builder result = CallToolResult.newBuilder();
    if (value == null && (output != null || !allowsNull)) {
      throw new IllegalStateException("the tool returned null, which its return type does not allow");
    } else if (output != null) {
      structured(result, output.write(value), output.wrap());
    } else if (value instanceof CharSequence) {
      result.addContent(text(value.toString()));
    } else if (value == null) {
      return result.build();
    } else if (isBlock(value)) {
      result.addContent(block(value));
    } else if (list(value).stream().anyMatch(Content::isBlock)) {
      list(value).forEach(v -> result.addContent(block(v)));
    } else if (value instanceof byte[]) {
      throw new IllegalStateException(
          "a tool cannot return byte[]: return new Image(data, mimeType), new Audio(...) or text");
    } else {
      byte[] json = Json.write("the tool", value, Json.MAPPER.writer());
      structured(result, json, json[0] != '{');
    }
    return result.build();
  }

  /** Sets structured content, which is an object in MCP, and its text for clients that do not support it. */
  private static void structured(CallToolResult.Builder result, byte[] json, boolean wrap) {
    ByteString bytes = ByteString.copyFrom(json);
    result.addContent(ContentBlock.newBuilder().setText(TextContent.newBuilder().setTextBytes(bytes)));
    result.setStructuredContent(
        wrap ? ByteString.copyFromUtf8("{\"result\":").concat(bytes).concat(ByteString.copyFromUtf8("}")) : bytes);
  }

  private static ContentBlock text(String text) {
    return ContentBlock.newBuilder().setText(TextContent.newBuilder().setText(text)).build();
  }

  /** Returns the elements of a list or an array, or the value itself as the only element. */
  private static Collection<?> list(Object value) {
    return value instanceof Collection<?> list
        ? list
        : value instanceof Object[] array ? Arrays.asList(array) : Collections.singleton(value);
  }

  static ContentBlock block(Object value) {
    if (value instanceof CharSequence s) {
      return text(s.toString());
    } else if (value instanceof Image v) {
      return v.block();
    } else if (value instanceof Audio v) {
      return v.block();
    } else if (value instanceof Embedded v) {
      return v.block();
    } else if (value instanceof Link v) {
      return v.block();
    } else if (value instanceof ContentBlock v) {
      return v;
    }
    ContentBlock.Builder block = ContentBlock.newBuilder();
    if (value instanceof TextContent v) {
      block.setText(v);
    } else if (value instanceof ImageContent v) {
      block.setImage(v);
    } else if (value instanceof AudioContent v) {
      block.setAudio(v);
    } else if (value instanceof EmbeddedResource v) {
      block.setResource(v);
    } else if (value instanceof dev.mcpbridge.v1.Resource v) {
      block.setResourceLink(v);
    } else if (value instanceof ToolUseContent v) {
      block.setToolUse(v);
    } else if (value instanceof ToolResultContent v) {
      block.setToolResult(v);
    } else {
      throw new IllegalArgumentException(
          "content cannot be "
              + (value == null ? "null" : value.getClass().getSimpleName())
              + ": use String, Image, Audio, Embedded, Link or messages of the contract");
    }
    return block.build();
  }

  // Resources.

  /** Returns the contents of a resource that returned value. */
  static MessageLite resources(Object value, String uri, String mimeType) {
    if (value instanceof ReadResourceResult || value instanceof InputRequired) {
      return (MessageLite) value;
    }
    ReadResourceResult.Builder result = ReadResourceResult.newBuilder();
    if (list(value).stream().anyMatch(ResourceContents.class::isInstance)) {
      list(value).forEach(v -> result.addContents(resource(v, uri, mimeType)));
    } else {
      result.addContents(resource(value, uri, mimeType));
    }
    return result.build();
  }

  /** Returns the contents for text or bytes, or for any other value its JSON. */
  static ResourceContents resource(Object value, String uri, String mimeType) {
    ResourceContents.Builder contents = ResourceContents.newBuilder();
    String type;
    if (value instanceof Optional<?> optional) {
      return resource(optional.orElse(null), uri, mimeType);
    } else if (value instanceof ResourceContents v) {
      contents.mergeFrom(v);
      type = null;
    } else if (value instanceof CharSequence v) {
      contents.setText(v.toString());
      type = "text/plain";
    } else if (value instanceof byte[] v) {
      contents.setBlob(ByteString.copyFrom(v));
      type = "application/octet-stream";
    } else if (value instanceof Image v) {
      contents.setBlob(ByteString.copyFrom(v.data()));
      type = v.mimeType();
    } else if (value instanceof Audio v) {
      contents.setBlob(ByteString.copyFrom(v.data()));
      type = v.mimeType();
    } else if (value == null) {
      throw new NotFoundException("there is no resource \"" + uri + "\"");
    } else if (value instanceof MessageLite) {
      throw new IllegalStateException("a resource cannot return " + value.getClass().getSimpleName());
    } else {
      contents.setTextBytes(ByteString.copyFrom(Json.write("the resource", value, Json.MAPPER.writer())));
      type = "application/json";
    }
    if (contents.getUri().isEmpty()) {
      contents.setUri(uri);
    }
    if (!contents.hasMimeType() && (mimeType != null || type != null)) {
      contents.setMimeType(mimeType != null ? mimeType : type);
    }
    return contents.build();
  }

  // Prompts.

  /** Returns the messages of a prompt that returned value. */
  static MessageLite prompt(Object value, String description) {
    if (value instanceof GetPromptResult || value instanceof InputRequired) {
      return (MessageLite) value;
    }
    GetPromptResult.Builder result = GetPromptResult.newBuilder();
    if (description != null) {
      result.setDescription(description);
    }
    for (Object turn : list(value)) {
      if (turn instanceof PromptMessage v) {
        result.addMessages(v);
      } else {
        result.addAllMessages((turn instanceof Message v ? v : Message.user(turn)).prompt());
      }
    }
    return result.build();
  }
}
