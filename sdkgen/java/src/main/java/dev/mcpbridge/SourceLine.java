package dev.mcpbridge;

import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import java.util.regex.Pattern;

/** Source lines of the application, such as `Tools.java:12`, for messages. */
final class SourceLine {
  /** Classes of the SDK that can be on the stack of a definition. */
  private static final Pattern DEFINING =
      Pattern.compile(
          "dev\\.mcpbridge\\.(App|Bridge|Methods|Schema|Types|SourceLine|DefinitionException|\\w+Builder)\\b.*");

  /** Classes of the SDK and of the JDK that can be between the SDK and the application on the stack of a call. */
  private static final Pattern CALLING =
      Pattern.compile(
          "dev\\.mcpbridge\\.(App|Context|Methods|Content|Schema|Json|Service|\\w+Builder)\\b.*|(java|jdk)\\..*");

  private SourceLine() {}

  /** Returns the current line of the application. */
  static String caller() {
    return StackWalker.getInstance()
        .walk(frames -> frames.filter(f -> !DEFINING.matcher(f.getClassName()).matches()).findFirst())
        .map(f -> text(f.toStackTraceElement()))
        .orElse("here");
  }

  /** Returns the first line of a method's body, or its name. */
  static String of(Method method) {
    Class<?> type = method.getDeclaringClass();
    String name = type.getSimpleName() + "." + method.getName();
    try (InputStream file =
        type.getResourceAsStream(type.getName().substring(type.getName().lastIndexOf('.') + 1) + ".class")) {
      return file == null
          ? name
          : new ClassFile(new DataInputStream(file)).line(method.getName(), descriptor(method), name);
    } catch (IOException | RuntimeException e) {
      return name; // A line number is not required.
    }
  }

  private static String descriptor(Method method) {
    StringBuilder text = new StringBuilder("(");
    for (Class<?> type : method.getParameterTypes()) {
      text.append(type.descriptorString());
    }
    return text.append(')').append(method.getReturnType().descriptorString()).toString();
  }

  private static String text(StackTraceElement at) {
    return at.getFileName() == null || at.getLineNumber() < 0
        ? at.getClassName() + "." + at.getMethodName()
        : at.getFileName() + ":" + at.getLineNumber();
  }

  /** Returns the cause of e if the JVM has wrapped it because the initialization of a class failed, or else e. */
  static Throwable unwrapInitializer(Throwable e) {
    boolean wrapped = e instanceof ExceptionInInitializerError || e instanceof NoClassDefFoundError;
    return wrapped && e.getCause() != null ? unwrapInitializer(e.getCause()) : e;
  }

  /**
   * Returns the line of the application at which a call failed, or the line of its handler. Removes frames of the SDK
   * from the stack trace.
   */
  static String ofFailure(Throwable e, Supplier<String> definition) {
    StackTraceElement[] trace = e.getStackTrace();
    int frame = handlerFrame(trace);
    for (int i = 0; i < frame; i++) {
      if (trace[i].getMethodName().equals("<clinit>")) {
        frame = i; // The failed initializer, and not the code that uses the class.
      }
    }
    for (Throwable t = e; t != null; t = t.getCause()) {
      t.setStackTrace(Arrays.copyOf(t.getStackTrace(), handlerFrame(t.getStackTrace()) + 1));
    }
    return frame < 0 ? definition.get() : text(trace[frame]);
  }

  /** Returns the outermost frame of the application, or -1. */
  private static int handlerFrame(StackTraceElement[] trace) {
    int frame = trace.length - 1;
    while (frame >= 0
        && !(trace[frame].getClassName().equals(App.class.getName()) && trace[frame].getMethodName().equals("round"))) {
      frame--;
    }
    if (frame < 0) {
      frame = trace.length - 1; // The exception was created in another thread.
    }
    while (frame >= 0 && CALLING.matcher(trace[frame].getClassName()).matches()) {
      frame--;
    }
    return frame;
  }

  /** Returns the line that calls System.exit in this stack trace, or null. */
  static String ofExit(StackTraceElement[] trace) {
    for (int i = trace.length - 2; i >= 0; i--) {
      String name = trace[i].getClassName();
      if (trace[i].getMethodName().equals("exit")
          && (name.equals("java.lang.System") || name.equals("java.lang.Runtime"))) {
        return text(trace[i + 1]);
      }
    }
    return null;
  }

  /** Parses the line numbers of a class file: JVM specification, chapter 4. */
  private static final class ClassFile {
    private final DataInputStream in;
    private final Map<Integer, String> texts = new HashMap<>();

    ClassFile(DataInputStream in) throws IOException {
      this.in = in;
      in.skipNBytes(8);
      int constants = in.readUnsignedShort();
      for (int i = 1; i < constants; i++) {
        int tag = in.readUnsignedByte();
        switch (tag) {
          case 1 -> texts.put(i, in.readUTF());
          case 7, 8, 16, 19, 20 -> in.skipNBytes(2);
          case 15 -> in.skipNBytes(3);
          case 3, 4, 9, 10, 11, 12, 17, 18 -> in.skipNBytes(4);
          case 5, 6 -> {
            in.skipNBytes(8);
            i++; // They take two entries.
          }
          default -> throw new IOException("a constant of the unknown kind " + tag);
        }
      }
      in.skipNBytes(6);
      in.skipNBytes(2L * in.readUnsignedShort()); // Interfaces.
    }

    String line(String name, String descriptor, String otherwise) throws IOException {
      members(null, null); // Fields.
      int line = members(name, descriptor);
      String[] file = {null};
      attributes((attribute, length) -> {
        if (attribute.equals("SourceFile")) {
          file[0] = texts.get(in.readUnsignedShort());
        } else {
          in.skipNBytes(length);
        }
      });
      return line < 0 || file[0] == null ? otherwise : file[0] + ":" + line;
    }

    private int members(String name, String descriptor) throws IOException {
      int[] line = {-1};
      for (int members = in.readUnsignedShort(); members > 0; members--) {
        in.skipNBytes(2);
        String member = texts.get(in.readUnsignedShort());
        boolean matches = texts.get(in.readUnsignedShort()).equals(descriptor) && member.equals(name);
        attributes((attribute, length) -> {
          if (matches && attribute.equals("Code")) {
            line[0] = code();
          } else {
            in.skipNBytes(length);
          }
        });
      }
      return line[0];
    }

    private int code() throws IOException {
      in.skipNBytes(4);
      in.skipNBytes(in.readInt());
      in.skipNBytes(8L * in.readUnsignedShort()); // Exceptions.
      int[] first = {Integer.MAX_VALUE};
      attributes((attribute, length) -> {
        if (!attribute.equals("LineNumberTable")) {
          in.skipNBytes(length);
          return;
        }
        for (int lines = in.readUnsignedShort(); lines > 0; lines--) {
          in.skipNBytes(2);
          first[0] = Math.min(first[0], in.readUnsignedShort());
        }
      });
      return first[0] == Integer.MAX_VALUE ? -1 : first[0];
    }

    private interface Attribute {
      void read(String name, int length) throws IOException;
    }

    private void attributes(Attribute each) throws IOException {
      for (int attributes = in.readUnsignedShort(); attributes > 0; attributes--) {
        String name = texts.get(in.readUnsignedShort());
        each.read(name, in.readInt());
      }
    }
  }
}
