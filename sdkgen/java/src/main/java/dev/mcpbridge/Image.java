package dev.mcpbridge;

import com.google.protobuf.ByteString;
import dev.mcpbridge.v1.ContentBlock;
import dev.mcpbridge.v1.ImageContent;
import java.io.IOException;
import java.net.URLConnection;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

/** An image to return: {@code new Image(bytes)}, or {@code Image.file(Path.of("map.png"))}. */
@SuppressWarnings("ArrayRecordComponent") // It is only returned and never compared.
public record Image(byte[] data, String mimeType) {
  public Image {
    Objects.requireNonNull(data);
    Objects.requireNonNull(mimeType);
  }

  public Image(byte[] data) {
    this(data, "image/png");
  }

  public static Image file(Path path) throws IOException {
    String type = URLConnection.guessContentTypeFromName(path.toString());
    return new Image(Files.readAllBytes(path), type == null ? "image/png" : type);
  }

  ContentBlock block() {
    var content = ImageContent.newBuilder().setData(ByteString.copyFrom(data)).setMimeType(mimeType);
    return ContentBlock.newBuilder().setImage(content).build();
  }
}
