/** The listeners for changes, and the pending changes of each. */
import type { ListenResponse, SubscriptionFilter } from "./gen/mcpbridge/v1/service.js";

export type List = "tools" | "prompts" | "resources";

// The maximum number of pending completed URL elicitations of a listener. Other changes are bounded by its
// subscriptions.
const MAX_COMPLETED = 10_000;

/** The listeners for changes of an App. */
export class Changes {
  readonly #listeners = new Set<Listener>();

  listChanged(which: List): void {
    const value = { meta: "", extra: "" };
    this.#notify(which, (l) => l.lists.has(which), { event: { $case: `${which}ListChanged`, value } });
  }

  updated(uri: string): void {
    const value = { uri, meta: "", extra: "" };
    this.#notify(`uri ${uri}`, (l) => l.uris.has(uri), { event: { $case: "resourceUpdated", value } });
  }

  elicitationCompleted(id: string): void {
    const value = { elicitationId: id, meta: "", extra: "" };
    this.#notify(`visit ${id}`, (l) => l.elicitations && l.size < MAX_COMPLETED, {
      event: { $case: "elicitationCompleted", value },
    });
  }

  #notify(key: string, filter: (l: Listener) => boolean, response: ListenResponse): void {
    for (const l of this.#listeners) if (filter(l)) l.notify(key, response);
  }

  /** Returns a listener for the changes in the filter, which calls `wake` when a change is pending. */
  listen(filter: SubscriptionFilter, wake: () => void): Listener {
    const l = new Listener(filter, wake, () => this.#listeners.delete(l));
    this.#listeners.add(l);
    return l;
  }
}

/** One Listen call. Its pending changes are a set: repeated changes are combined, and the size is bounded. */
export class Listener {
  readonly lists = new Set<List>();
  readonly uris: Set<string>;
  readonly elicitations: boolean;
  readonly #pending = new Map<string, ListenResponse>();

  constructor(
    filter: SubscriptionFilter,
    readonly wake: () => void,
    readonly remove: () => void,
  ) {
    if (filter.toolsListChanged) this.lists.add("tools");
    if (filter.promptsListChanged) this.lists.add("prompts");
    if (filter.resourcesListChanged) this.lists.add("resources");
    this.uris = new Set(filter.resourceSubscriptions);
    this.elicitations = filter.elicitationsCompleted ?? false;
  }

  get size(): number {
    return this.#pending.size;
  }

  notify(key: string, response: ListenResponse): void {
    this.#pending.set(key, response);
    this.wake();
  }

  /** Removes and returns the oldest pending change. */
  next(): ListenResponse | undefined {
    for (const [key, response] of this.#pending) {
      this.#pending.delete(key);
      return response;
    }
    return undefined;
  }
}
