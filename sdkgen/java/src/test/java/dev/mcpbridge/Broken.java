package dev.mcpbridge;

import java.io.InputStream;

/** A program with a mistake, which the tests start. */
public final class Broken {
  @Tool
  public String upload(InputStream file) {
    return "never";
  }

  public static void main(String[] args) {
    Bridge.of(new Broken()).run(args);
  }
}
