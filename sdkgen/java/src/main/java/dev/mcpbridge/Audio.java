package dev.mcpbridge;

import com.google.protobuf.ByteString;
import dev.mcpbridge.v1.AudioContent;
import dev.mcpbridge.v1.ContentBlock;
import java.io.IOException;
import java.net.URLConnection;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Objects;

/** Audio to return: {@code new Audio(bytes)}, or {@code Audio.file(Path.of("bell.wav"))}. */
@SuppressWarnings("ArrayRecordComponent") // It is only returned and never compared.
public record Audio(byte[] data, String mimeType) {
  public Audio {
    Objects.requireNonNull(data);
    Objects.requireNonNull(mimeType);
  }

  public Audio(byte[] data) {
    this(data, "audio/wav");
  }

  public static Audio file(Path path) throws IOException {
    String type = URLConnection.guessContentTypeFromName(path.toString());
    return new Audio(Files.readAllBytes(path), type == null ? "audio/wav" : type);
  }

  ContentBlock block() {
    var content = AudioContent.newBuilder().setData(ByteString.copyFrom(data)).setMimeType(mimeType);
    return ContentBlock.newBuilder().setAudio(content).build();
  }
}
