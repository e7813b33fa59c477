package dev.mcpbridge;

import io.grpc.Server;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.net.ConnectException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketAddress;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/** Serves an App: to the bridge that launched it (the handshake of hashicorp/go-plugin), or at an address. */
final class Serve {
  /** The version of the plugin protocol, the second field of the handshake. */
  private static final int PROTOCOL = 1;

  /** The time in milliseconds for calls in flight to complete at shutdown. */
  static final long DRAIN = 5000;

  /** The maximum length of the path of a unix socket: sun_path has 104 to 108 bytes. */
  private static final int MAX_PATH = 100;

  private Serve() {}

  /** Serves app until shutdown, and exits. See App.run. */
  static void run(App app, String... args) {
    try {
      String listen = listenArgument(app, args.length > 0 ? List.of(args) : Arrays.asList(command().split(" ")));
      app.check();
      app.warn();
      if (listen != null) {
        serveAt(app, listen);
      } else if (Stdout.MANAGED) {
        serveBridge(app);
      } else {
        String java = program();
        exit(
            2,
            app.name()
                + " is a backend for mcpbridge, which serves it to MCP clients. Run\n\n    mcpbridge run -- "
                + java
                + "\n\nor let it wait for a bridge, or a debugger, with\n\n    "
                + java
                + " --listen 127.0.0.1:50051");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    } catch (IOException e) {
      exit(1, app.name() + ": " + e.getMessage());
    }
    System.out.flush();
    System.err.flush();
    System.exit(0); // Threads of the application may still be running.
  }

  private static String command() {
    return System.getProperty("sun.java.command", "");
  }

  /** Returns the command that starts this program in a terminal. */
  private static String program() {
    String main = command().split(" ", 2)[0];
    if (main.endsWith(".jar") || main.endsWith(".java")) {
      return (main.endsWith(".jar") ? "java -jar " : "java ") + main;
    }
    return "java -cp ... " + (main.startsWith("jdk.compiler/") ? "TheProgram.java" : main);
  }

  private static String listenArgument(App app, List<String> args) {
    for (int i = 0; i < args.size(); i++) {
      if (args.get(i).startsWith("--listen=")) {
        return args.get(i).substring("--listen=".length());
      }
      if (args.get(i).equals("--listen")) {
        if (i + 1 == args.size()) {
          exit(2, app.name() + ": --listen needs an address: host:port or unix:/path");
        }
        return args.get(i + 1);
      }
    }
    return null;
  }

  private static void exit(int code, String message) {
    System.err.println(message);
    System.err.flush();
    System.exit(code);
  }

  // Two modes: the bridge launched this program, or clients connect to an address.

  private static void serveAt(App app, String listen) throws IOException, InterruptedException {
    // The bridge's address format: tcp:host:port, unix:///path.
    String address = listen.startsWith("tcp:") ? listen.substring("tcp:".length()).replaceFirst("^//", "") : listen;
    Service service = new Service(app);
    Path socket = null;
    Server server;
    try {
      if (address.startsWith("unix:")) {
        socket = Path.of(address.substring("unix:".length()).replaceFirst("^//", "")).toAbsolutePath();
        deleteStale(socket);
        server = service.start(UnixDomainSocketAddress.of(socket), null);
      } else {
        int colon = address.lastIndexOf(':');
        String host = colon < 0 ? "" : address.substring(0, colon).replaceAll("^\\[|\\]$", "");
        InetAddress first = InetAddress.getAllByName(host.isEmpty() ? "127.0.0.1" : host)[0];
        server = service.start(new InetSocketAddress(first, port(address.substring(colon + 1))), null);
      }
    } catch (IOException | RuntimeException e) {
      Throwable why = e.getCause() == null ? e : e.getCause();
      throw new IOException("cannot listen at " + listen + ": " + why.getMessage(), e);
    }
    String at = socket != null ? "unix://" + socket : "tcp:" + text(server.getListenSockets().get(0));
    System.err.println(app.name() + ": listening. Serve it with: mcpbridge run " + at);
    onSignal("INT", service::stop);
    onSignal("TERM", service::stop);
    service.await();
    if (socket != null) {
      Files.deleteIfExists(socket);
    }
  }

  private static int port(String text) {
    try {
      return Integer.parseInt(text);
    } catch (NumberFormatException e) {
      throw new IllegalArgumentException("an address is host:port or unix:/path", e);
    }
  }

  private static String text(SocketAddress address) {
    InetSocketAddress inet = (InetSocketAddress) address;
    String host = inet.getAddress().getHostAddress();
    return (host.contains(":") ? "[" + host + "]" : host) + ":" + inet.getPort();
  }

  /** Removes the socket of a program that has exited. */
  private static void deleteStale(Path socket) throws IOException {
    if (!Files.exists(socket)) {
      return;
    }
    try {
      SocketChannel.open(UnixDomainSocketAddress.of(socket)).close();
    } catch (ConnectException e) {
      Files.delete(socket);
      return;
    }
    throw new IOException("the address is in use");
  }

  private static void serveBridge(App app) throws IOException, InterruptedException {
    checkVersion();
    KeyPair pair = KeyPair.fromEnvironment();
    Service service = new Service(app);
    String dir = System.getenv("PLUGIN_UNIX_SOCKET_DIR");
    String network;
    String address;
    Runnable cleanup = () -> {};
    boolean noUnix =
        !List.of(Optional.ofNullable(System.getenv("PLUGIN_TRANSPORTS")).orElse("unix").split(",")).contains("unix");
    if (noUnix
        || File.separatorChar == '\\'
        || (dir != null && dir.getBytes(StandardCharsets.UTF_8).length > MAX_PATH - 20)) {
      Server server = service.start(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), pair);
      network = "tcp";
      address = text(server.getListenSockets().get(0));
    } else {
      Path folder = dir != null ? Path.of(dir) : Files.createTempDirectory("mcpbridge");
      Path socket = folder.resolve(ProcessHandle.current().pid() + ".sock");
      service.start(UnixDomainSocketAddress.of(socket), pair);
      group(socket);
      network = "unix";
      address = socket.toString();
      cleanup =
          () -> {
            socket.toFile().delete();
            if (dir == null) {
              folder.toFile().delete();
            }
          };
    }
    onSignal("INT", () -> {}); // The terminal also sends it to the bridge, which then stops this program.
    onSignal("TERM", service::stop);
    watchParent(service, cleanup);
    String multiplex = Optional.ofNullable(System.getenv("PLUGIN_MULTIPLEX_GRPC")).orElse("").isEmpty() ? "" : "|false";
    Stdout.writeHandshake(
        "1|"
            + PROTOCOL
            + "|"
            + network
            + "|"
            + address
            + "|grpc|"
            + (pair == null ? "" : pair.handshake())
            + multiplex);
    service.connect(System.getenv(Frames.VARIABLE));
    service.await();
    cleanup.run();
  }

  private static void checkVersion() {
    String versions = Optional.ofNullable(System.getenv("PLUGIN_PROTOCOL_VERSIONS")).orElse("1");
    if (Arrays.stream(versions.split(",")).noneMatch(v -> v.strip().equals(String.valueOf(PROTOCOL)))) {
      exit(
          1,
          "the bridge supports version "
              + versions
              + " of the plugin protocol, and this SDK supports version "
              + PROTOCOL
              + ": update one of them");
    }
  }

  private static void group(Path socket) throws IOException {
    String group = System.getenv("PLUGIN_UNIX_SOCKET_GROUP");
    if (group != null && !group.isEmpty()) {
      var principal = socket.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByGroupName(group);
      var view = Files.getFileAttributeView(socket, PosixFileAttributeView.class);
      view.setGroup(principal);
      view.setPermissions(PosixFilePermissions.fromString("rw-rw----"));
    }
  }

  // Shutdown.

  /**
   * Runs a function at a signal, instead of the default action. The JDK has no public API for this. sun.misc.Signal is
   * called by reflection, because the compiler warns of it. Without it, the default action applies.
   */
  private static void onSignal(String signal, Runnable action) {
    try {
      Class<?> handler = Class.forName("sun.misc.SignalHandler");
      Class<?> type = Class.forName("sun.misc.Signal");
      InvocationHandler invoke =
          (proxy, method, args) -> switch (method.getName()) {
            case "equals" -> proxy == args[0];
            case "hashCode" -> System.identityHashCode(proxy);
            case "toString" -> "mcpbridge " + signal.toLowerCase(Locale.ROOT);
            default -> {
              action.run();
              yield null;
            }
          };
      Object proxy = Proxy.newProxyInstance(Serve.class.getClassLoader(), new Class<?>[] {handler}, invoke);
      type.getMethod("handle", type, handler)
          .invoke(null, type.getConstructor(String.class).newInstance(signal), proxy);
    } catch (ReflectiveOperationException | RuntimeException e) {
      System.getLogger("mcpbridge").log(System.Logger.Level.DEBUG, "no handler for SIG" + signal, e);
    }
  }

  /** Standard input is reserved for the bridge. A tool that reads it fails; a library gets an end of file. */
  private static final class NoInput extends InputStream {
    @Override
    public int read() {
      return read(new byte[1], 0, 1);
    }

    @Override
    public int read(byte[] buffer, int offset, int length) {
      if (Context.current() == null) {
        return -1;
      }
      // Not an IOException, which Scanner hides.
      throw new IllegalStateException(
          "a tool cannot read standard input, which belongs to the bridge; ask the user:"
              + " ctx.elicit(message, String.class)");
    }
  }

  /** Makes the program exit when the bridge exits or is killed. */
  private static void watchParent(Service service, Runnable cleanup) {
    InputStream lifeline = System.in;
    boolean stdin = "stdin".equals(System.getenv("MCP_PLUGIN_LIFELINE"));
    Optional<ProcessHandle> parent = ProcessHandle.current().parent();
    if (stdin) {
      System.setIn(new NoInput());
    }
    Thread watch =
        new Thread(
            () -> {
              try {
                if (stdin) {
                  byte[] buffer = new byte[4096];
                  while (lifeline.read(buffer) >= 0) {}
                } else {
                  while (parent.isPresent() && ProcessHandle.current().parent().equals(parent)) {
                    Thread.sleep(1000);
                  }
                }
              } catch (IOException | InterruptedException e) {
                // Like the end of the input.
              }
              // No caller is left: do not drain, and exit even if a handler is blocked.
              service.stop(0);
              try {
                Thread.sleep(2000);
              } catch (InterruptedException e) {
                // Exit at once.
              }
              cleanup.run();
              Runtime.getRuntime().halt(0);
            },
            "mcpbridge-lifeline");
    watch.setDaemon(true);
    watch.start();
  }
}
