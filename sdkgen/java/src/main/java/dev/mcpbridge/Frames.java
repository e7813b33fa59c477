package dev.mcpbridge;

import com.google.protobuf.CodedOutputStream;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.MessageLite;
import dev.mcpbridge.v1.CallToolRequest;
import dev.mcpbridge.v1.CallToolResponse;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import io.grpc.stub.ServerCallStreamObserver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Path;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Tool calls as frames, on a socket of the bridge that launched this program, instead of CallTool over gRPC.
 * proto/mcpbridge/v1/frames.md describes the protocol. The same code as for gRPC handles the calls: this class only
 * transports messages.
 */
final class Frames {
  static final String VARIABLE = "MCPBRIDGE_FRAMES";

  // The kinds of frames: from the bridge, and to it.
  static final int CALL = 1;
  static final int CANCEL = 2;
  static final int TAKEN = 3;
  static final int HELLO = 16;
  static final int EVENT = 17;
  static final int RESULT = 18;
  static final int ERROR = 19;
  static final int LAST = 20;

  static final int VERSION = 1;

  /** The size of the header in bytes: the payload's length, the call's id, the kind. */
  static final int HEADER = 9;

  /** The maximum number of unread events of a call. */
  static final int MAX_UNREAD = 64;

  private static final int BUFFER = 64 << 10;
  private static final System.Logger LOG = System.getLogger("mcpbridge");

  private final Service service;
  private final SocketChannel channel; // Non-blocking: interrupting a blocked thread would close it.
  private final Selector selector;
  private final SelectionKey key;
  private final Map<Integer, Call> calls = new ConcurrentHashMap<>();
  private final CountDownLatch closed = new CountDownLatch(1);
  private int last; // The id of the last call that was started. Guarded by this, like the next fields.
  private boolean draining; // Whether new calls are refused.

  // Input. Used by the reader only.
  private final ByteBuffer in = ByteBuffer.allocateDirect(BUFFER);
  private byte[] request; // The request of a CALL frame that has arrived in part, or null.
  private int number; // The id of its call.
  private int received; // The number of its bytes that have arrived.
  private int skip; // The number of bytes to discard.

  // Output. The thread that increments unwritten from 0 owns both buffers, and writes for all threads until it is 0
  // again.
  private final Queue<ByteBuffer> queue = new ConcurrentLinkedQueue<>();
  private final AtomicInteger unwritten = new AtomicInteger();
  private final ByteBuffer out = ByteBuffer.allocateDirect(BUFFER);
  private ByteBuffer current = ByteBuffer.allocate(0); // The rest of the current frame.

  /**
   * Connects to the address of the bridge, and serves its calls. Returns null if that is not possible: calls then use
   * gRPC.
   */
  static Frames connect(Service service, String address) {
    if (address == null || !address.startsWith("unix:")) {
      return null;
    }
    try {
      Frames frames = new Frames(service, Path.of(address.substring("unix:".length())));
      Thread reader = new Thread(frames::run, "mcpbridge-frames");
      reader.setDaemon(true);
      reader.start();
      return frames;
    } catch (IOException | RuntimeException e) { // Such as on systems without unix sockets.
      LOG.log(System.Logger.Level.DEBUG, "cannot connect for frames at " + address + ", calls use gRPC: " + e);
      return null;
    }
  }

  private Frames(Service service, Path socket) throws IOException {
    this.service = service;
    channel = SocketChannel.open(UnixDomainSocketAddress.of(socket));
    try {
      channel.configureBlocking(false);
      selector = Selector.open();
      key = channel.register(selector, SelectionKey.OP_READ);
    } catch (IOException | RuntimeException e) {
      channel.close();
      throw e;
    }
    send(header(ByteBuffer.allocate(HEADER + 1), HELLO, 0, 1).put((byte) VERSION));
  }

  /** Refuses new calls. The bridge closes the connection when calls in flight have been answered. */
  synchronized void drain() {
    draining = true;
    send(header(ByteBuffer.allocate(HEADER), LAST, last, 0));
  }

  /** Waits until the connection is closed, up to a time limit. */
  boolean awaitClose(long milliseconds) throws InterruptedException {
    return closed.await(milliseconds, TimeUnit.MILLISECONDS);
  }

  /** Closes the connection. */
  void close() {
    try {
      channel.close();
      selector.close(); // Makes run return.
    } catch (IOException e) {
      LOG.log(System.Logger.Level.DEBUG, "cannot close the connection for frames", e);
    }
  }

  // Reading.

  private void run() {
    try {
      while (true) {
        selector.select();
        selector.selectedKeys().clear();
        if (key.isWritable()) {
          key.interestOps(SelectionKey.OP_READ);
          write();
        }
        if (key.isReadable() && !read()) {
          return;
        }
      }
    } catch (IOException | CancelledKeyException | ClosedSelectorException e) {
      LOG.log(System.Logger.Level.DEBUG, "the connection for frames ended", e);
    } catch (ProtocolViolation e) {
      LOG.log(
          System.Logger.Level.ERROR,
          "protocol violation: the bridge sent "
              + e.getMessage()
              + "; the connection for frames is closed, and calls use gRPC");
    } catch (Throwable e) { // Such as OutOfMemoryError.
      LOG.log(System.Logger.Level.ERROR, "the connection for frames failed; calls use gRPC", e);
    } finally {
      close();
      closed.countDown();
      calls.values().forEach(Call::cancel);
      calls.clear();
    }
  }

  /** The peer sent a frame that the protocol forbids. */
  private static final class ProtocolViolation extends Exception {
    private static final long serialVersionUID = 1;

    ProtocolViolation(String what) {
      super(what);
    }
  }

  /** Reads and handles all available input. Returns false if the connection is closed. */
  private boolean read() throws IOException, ProtocolViolation {
    boolean full;
    do {
      if (channel.read(in) < 0) {
        return false;
      }
      full = !in.hasRemaining();
      in.flip();
      while (readFrame()) {}
      in.compact();
    } while (full);
    return true;
  }

  /** Handles the next frame, or a part of it. Returns false if more input is required. */
  private boolean readFrame() throws ProtocolViolation {
    if (skip > 0) {
      int count = Math.min(skip, in.remaining());
      in.position(in.position() + count);
      skip -= count;
      return skip == 0;
    }
    if (request == null) {
      if (in.remaining() < HEADER) {
        return false;
      }
      header(in.getInt(), in.getInt(), in.get());
      return true;
    }
    int count = Math.min(request.length - received, in.remaining());
    in.get(request, received, count);
    received += count;
    if (received < request.length) {
      return false;
    }
    byte[] whole = request;
    request = null;
    startCall(whole);
    return true;
  }

  private void header(int length, int id, int kind) throws ProtocolViolation {
    if (length < 0 || length > Service.MAX_MESSAGE) {
      throw new ProtocolViolation(
          "a frame of " + Integer.toUnsignedLong(length) + " bytes, more than the maximum of " + Service.MAX_MESSAGE);
    }
    Call call = calls.get(id);
    if (kind == CALL) {
      if (call != null) {
        throw new ProtocolViolation("a call with the id " + Integer.toUnsignedLong(id) + ", which is in flight");
      }
      request = new byte[length];
      number = id;
      received = 0;
      return;
    }
    skip = length;
    if (call != null && kind == CANCEL) {
      call.cancel();
    } else if (call != null && kind == TAKEN) {
      call.handleTaken();
    } // Frames of other kinds, which a later version may have, are skipped.
  }

  private void startCall(byte[] request) {
    Call call;
    synchronized (this) {
      if (draining) {
        return; // The LAST frame has informed the bridge.
      }
      last = number;
      call = new Call(number);
      calls.put(number, call);
    }
    try {
      service.callTool(CallToolRequest.parseFrom(request), call);
    } catch (InvalidProtocolBufferException e) {
      call.onError(
          Status.INTERNAL.withDescription("cannot decode the request: " + e.getMessage()).asRuntimeException());
    }
  }

  // Writing.

  private void send(int kind, int number, MessageLite payload) {
    int length = payload.getSerializedSize();
    ByteBuffer frame = ByteBuffer.allocate(HEADER + length);
    try {
      var out = CodedOutputStream.newInstance(header(frame, kind, number, length));
      payload.writeTo(out);
      out.flush();
    } catch (IOException e) {
      throw new UncheckedIOException(e); // The buffer has the serialized size.
    }
    send(frame);
  }

  private static ByteBuffer header(ByteBuffer frame, int kind, int number, int length) {
    return frame.putInt(length).putInt(number).put((byte) kind);
  }

  private void send(ByteBuffer frame) {
    if (!channel.isOpen()) {
      return;
    }
    queue.add(frame.rewind());
    if (unwritten.getAndIncrement() == 0) {
      write();
    }
  }

  /** Writes all queued frames, including those that other threads queue in the meantime. Only one thread runs it. */
  private void write() {
    try {
      int written = unwritten.get();
      do {
        if (!writeAll()) {
          // The reader continues when the socket is writable.
          key.interestOps(SelectionKey.OP_READ | SelectionKey.OP_WRITE);
          selector.wakeup();
          return;
        }
        written = unwritten.addAndGet(-written);
      } while (written > 0);
    } catch (IOException | CancelledKeyException | ClosedSelectorException e) {
      LOG.log(System.Logger.Level.DEBUG, "the connection for frames was lost", e);
      close(); // No thread writes any more, because unwritten is not 0.
      queue.clear();
    }
  }

  /** Returns false if the socket is not writable. */
  private boolean writeAll() throws IOException {
    while (fill()) {
      out.flip();
      channel.write(out);
      boolean all = !out.hasRemaining();
      out.compact();
      if (!all) {
        return false;
      }
    }
    return true;
  }

  /** Fills the buffer with frames, the last one possibly in part. Returns false if there are none. */
  private boolean fill() {
    while (out.hasRemaining()) {
      if (!current.hasRemaining()) {
        ByteBuffer next = queue.poll();
        if (next == null) {
          break;
        }
        current = next;
      }
      int count = Math.min(current.remaining(), out.remaining());
      out.put(out.position(), current, current.position(), count).position(out.position() + count);
      current.position(current.position() + count);
    }
    return out.position() > 0;
  }

  /** A call received as a frame. It has the interface of a gRPC call. */
  private final class Call extends ServerCallStreamObserver<CallToolResponse> {
    private final int id;
    private final AtomicInteger unread = new AtomicInteger();
    private volatile boolean cancelled;

    // The reader sets and runs them.
    private Runnable onReady = () -> {};
    private Runnable onCancel = () -> {};

    Call(int id) {
      this.id = id;
    }

    void cancel() {
      cancelled = true;
      onCancel.run();
    }

    /** Called when the bridge has read an event. A waiting handler continues when several more may be sent. */
    void handleTaken() {
      if (unread.get() > 0 && unread.decrementAndGet() == MAX_UNREAD / 2) {
        onReady.run();
      }
    }

    @Override
    public void onNext(CallToolResponse response) {
      boolean event = response.hasProgress() || response.hasLog() || response.hasTaskStarted();
      int length = response.getSerializedSize();
      if (length > Service.MAX_MESSAGE) {
        String what = "the response of " + length + " bytes exceeds the maximum of " + Service.MAX_MESSAGE + " bytes";
        if (event) {
          throw new IllegalArgumentException(what);
        }
        onError(Status.RESOURCE_EXHAUSTED.withDescription(what).asRuntimeException());
      } else if (event) {
        unread.incrementAndGet();
        send(EVENT, id, response);
      } else {
        finish(RESULT, response);
      }
    }

    @Override
    public void onError(Throwable thrown) {
      finish(ERROR, StatusProto.fromThrowable(thrown));
    }

    /** Called when the result has been sent. */
    @Override
    public void onCompleted() {}

    private void finish(int kind, MessageLite payload) {
      if (calls.remove(id, this)) { // First, because the bridge may reuse the id at once.
        send(kind, id, payload);
      }
    }

    @Override
    public boolean isCancelled() {
      return cancelled;
    }

    @Override
    public boolean isReady() {
      return unread.get() < MAX_UNREAD;
    }

    @Override
    public void setOnReadyHandler(Runnable handler) {
      onReady = handler;
    }

    @Override
    public void setOnCancelHandler(Runnable handler) {
      onCancel = handler;
    }

    // Members of gRPC calls only.

    @Override
    public void setCompression(String compression) {}

    @Override
    public void setMessageCompression(boolean enable) {}

    @Override
    public void disableAutoInboundFlowControl() {}

    @Override
    public void request(int count) {}
  }
}
