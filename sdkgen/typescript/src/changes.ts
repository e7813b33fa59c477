/** The listeners for changes, and the pending changes of each. */
import type { ListenResponse, SubscriptionFilter } from "./gen/mcpbridge/v1/service.js";

export type List = "tools" | "prompts" | "resources";

// The maximum number of pending visits of a listener. Other changes are bounded by its subscriptions.
const MAX_VISITS = 10_000;

/** The listeners of an App. */
export class Changes {
  readonly #listeners = new Set<Listener>();

  listChanged(which: List): void {
    const value = { meta: "", extra: "" };
    this.#tell(which, (l) => l.lists.has(which), { event: { $case: `${which}ListChanged`, value } });
  }

  updated(uri: string): void {
    const value = { uri, meta: "", extra: "" };
    this.#tell(`uri ${uri}`, (l) => l.uris.has(uri), { event: { $case: "resourceUpdated", value } });
  }

  visited(id: string): void {
    const value = { elicitationId: id, meta: "", extra: "" };
    this.#tell(`visit ${id}`, (l) => l.visits && l.size < MAX_VISITS, { event: { $case: "elicitationCompleted", value } });
  }

  #tell(key: string, wanted: (l: Listener) => boolean, response: ListenResponse): void {
    for (const l of this.#listeners) if (wanted(l)) l.tell(key, response);
  }

  /** Returns a listener for the wanted changes, which calls `wake` when a change is pending. */
  listen(wanted: SubscriptionFilter, wake: () => void): Listener {
    const l = new Listener(wanted, wake, () => this.#listeners.delete(l));
    this.#listeners.add(l);
    return l;
  }
}

/** One Listen call. Its pending changes are a set: repeated changes are combined, and the size is bounded. */
export class Listener {
  readonly lists = new Set<List>();
  readonly uris: Set<string>;
  readonly visits: boolean;
  readonly #pending = new Map<string, ListenResponse>();

  constructor(
    wanted: SubscriptionFilter,
    readonly wake: () => void,
    readonly forget: () => void,
  ) {
    if (wanted.toolsListChanged) this.lists.add("tools");
    if (wanted.promptsListChanged) this.lists.add("prompts");
    if (wanted.resourcesListChanged) this.lists.add("resources");
    this.uris = new Set(wanted.resourceSubscriptions);
    this.visits = wanted.elicitationsCompleted ?? false;
  }

  get size(): number {
    return this.#pending.size;
  }

  tell(key: string, response: ListenResponse): void {
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
