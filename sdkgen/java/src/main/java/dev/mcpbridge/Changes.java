package dev.mcpbridge;

import dev.mcpbridge.v1.ElicitationCompleted;
import dev.mcpbridge.v1.ListChanged;
import dev.mcpbridge.v1.ListenResponse;
import dev.mcpbridge.v1.ListenResult;
import dev.mcpbridge.v1.ResourceUpdated;
import dev.mcpbridge.v1.SubscriptionFilter;
import dev.mcpbridge.v1.SubscriptionsAcknowledged;
import io.grpc.stub.ServerCallStreamObserver;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArraySet;

/** The listeners for changes, and the pending changes of each. Changes may be reported from any thread. */
final class Changes {
  /** The lists whose changes are reported. */
  enum Lists {
    TOOLS,
    PROMPTS,
    RESOURCES
  }

  private final Set<Listener> listeners = new CopyOnWriteArraySet<>();

  void listChanged(Lists list) {
    listeners.forEach(listener -> listener.enqueue(list));
  }

  void updated(String uri) {
    listeners.forEach(listener -> listener.enqueue(uri));
  }

  void elicitationCompleted(String id) {
    listeners.forEach(listener -> listener.enqueue(new Visit(id)));
  }

  /** A completed URL elicitation, by its id. */
  private record Visit(String id) {}

  /** Serves a Listen call, until it is canceled or {@link #close}. */
  void listen(SubscriptionFilter filter, ServerCallStreamObserver<ListenResponse> out) {
    Listener listener = new Listener(filter, out);
    out.setOnCancelHandler(() -> listeners.remove(listener));
    out.setOnReadyHandler(listener::flush);
    synchronized (listener) { // Later changes are sent after the acknowledgment.
      listeners.add(listener);
      out.onNext(
          ListenResponse.newBuilder()
              .setAcknowledged(SubscriptionsAcknowledged.newBuilder().setNotifications(filter))
              .build());
    }
  }

  /** Ends all Listen calls. */
  void close() {
    listeners.forEach(Listener::close);
    listeners.clear();
  }

  /**
   * One Listen call. Its pending changes are a set: repeated changes are combined, and the size is bounded.
   */
  private static final class Listener {
    private final SubscriptionFilter filter;
    private final ServerCallStreamObserver<ListenResponse> out;
    private final Set<Object> pending = new LinkedHashSet<>(); // Lists, URIs and Visits. Guarded by this, as is out.
    private boolean closed;

    Listener(SubscriptionFilter filter, ServerCallStreamObserver<ListenResponse> out) {
      this.filter = filter;
      this.out = out;
    }

    private boolean matches(Object change) {
      if (change instanceof Lists list) {
        return switch (list) {
          case TOOLS -> filter.getToolsListChanged();
          case PROMPTS -> filter.getPromptsListChanged();
          case RESOURCES -> filter.getResourcesListChanged();
        };
      }
      return change instanceof Visit
          ? filter.getElicitationsCompleted()
          : filter.getResourceSubscriptionsList().contains(change);
    }

    synchronized void enqueue(Object change) {
      if (matches(change)) {
        pending.add(change);
        flush();
      }
    }

    synchronized void flush() {
      var next = pending.iterator();
      while (!closed && out.isReady() && next.hasNext()) {
        out.onNext(event(next.next()));
        next.remove();
      }
    }

    synchronized void close() {
      if (!closed && !out.isCancelled()) {
        out.onNext(ListenResponse.newBuilder().setResult(ListenResult.getDefaultInstance()).build());
        out.onCompleted();
      }
      closed = true;
    }

    private static ListenResponse event(Object change) {
      var event = ListenResponse.newBuilder();
      if (change instanceof Lists list) {
        switch (list) {
          case TOOLS -> event.setToolsListChanged(ListChanged.getDefaultInstance());
          case PROMPTS -> event.setPromptsListChanged(ListChanged.getDefaultInstance());
          case RESOURCES -> event.setResourcesListChanged(ListChanged.getDefaultInstance());
        }
      } else if (change instanceof Visit visit) {
        event.setElicitationCompleted(ElicitationCompleted.newBuilder().setElicitationId(visit.id()));
      } else {
        event.setResourceUpdated(ResourceUpdated.newBuilder().setUri((String) change));
      }
      return event.build();
    }
  }
}
