package com.example.library;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.mcpbridge.App;
import dev.mcpbridge.Bridge;
import dev.mcpbridge.testing.Caller;
import dev.mcpbridge.testing.Client;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.Map;
import org.junit.jupiter.api.Test;

class LibraryToolsTest {
  private static final String JAVA = "978-0-13-468599-1";

  @Test
  void booksAreLentAndRemoved() {
    Clock clock = Clock.fixed(Instant.parse("2026-11-20T12:00:00Z"), ZoneOffset.UTC);
    App app = Bridge.app("library", "1").add(new LibraryTools(Library.small(), clock));
    Caller caller = new Caller(app);
    assertTrue(caller.tool("search", Map.of("words", "java bloch")).structured().contains("Effective Java"));
    assertTrue(
        caller
            .tool("lend", Map.of("isbn", JAVA, "member", "Ada"))
            .structured()
            .endsWith("\"member\":\"Ada\",\"due\":\"2026-12-11\"}"));
    assertEquals(
        "Effective Java is lent to Ada until 2026-12-11",
        caller.tool("lend", Map.of("isbn", JAVA, "member", "Bob")).text());
    assertTrue(
        caller.tool("lend", Map.of("isbn", "Effective Java", "member", " ")).text().contains("- isbn: does not match"));
    assertTrue(caller.resource("library://loans").result().getContents(0).getText().contains("Ada"));

    Map<String, String> c = Map.of("isbn", "978-0-13-110362-7");
    assertEquals("The user keeps The C Programming Language.", caller.answers(Caller.DECLINE).tool("remove", c).text());
    assertEquals("Removed The C Programming Language.", caller.answers(true).tool("remove", c).text());
  }

  @Test
  void itRunsBehindTheBridge() {
    try (Client client = Client.start(LibraryTools.class)) {
      String found = client.call("search", Map.of("words", "goetz")).structured();
      assertTrue(found.startsWith("{\"result\":[{\"isbn\":\"978-0-321-34960-6\""), found);
    }
  }
}
