/** What the tour asks of a client, whoever wrote it. */
export interface Peer {
  /** The revision that client and server agreed upon. */
  readonly revision: string;
  /** Log messages in the order in which they came. */
  readonly logs: readonly LogMessage[];
  /** What the client itself found wrong with what it was sent. */
  readonly complaints: readonly string[];
  /** Resolves when there is a complaint that has this in it. */
  complaint(part: string): Promise<void>;
  /** The URIs of the folders that the client works in. */
  readonly roots: readonly string[];
  /** Answers every elicitation from now on; the last one set wins. */
  answer(reply: (ask: Ask) => Answer): void;
  /** Is the client's model from now on. */
  think(reply: (prompt: string) => string): void;
  /** Sets the least severe level that the server sends, in the way of the era. */
  logLevel(level: "debug" | "info"): Promise<void>;
  /** Resolves when the server next says that something has changed: the "tools", the "prompts", or the resource of a URI. */
  change(what: string): Promise<void>;
  tools(): Promise<Tool[]>;
  call(name: string, args: Record<string, unknown>, options?: CallOptions): Promise<ToolResult>;
  resources(): Promise<Named[]>;
  templates(): Promise<(Named & { uriTemplate: string })[]>;
  read(uri: string): Promise<Contents[]>;
  subscribe(uri: string): Promise<void>;
  unsubscribe(uri: string): Promise<void>;
  prompts(): Promise<Prompt[]>;
  prompt(name: string, args?: Record<string, string>): Promise<{ role: string; content: Content }[]>;
  /** What an argument's value can be completed to. */
  complete(of: Completable, argument: string, value: string): Promise<string[]>;
  close(): Promise<void>;
}

export type Era = "legacy" | "modern";

/**
 * What is not the same for all clients. For a client that cannot do something, the tour sees what stands for it.
 *
 * - annotations: tools have annotations, and a title among them
 * - audio: content can be sound
 * - messages: progress has messages
 * - titles: tools have a title of their own
 * - structure: results are structured, and tools say how
 * - links: content can be a link to a resource
 * - questions: the user can be asked
 * - choices: a question can be answered by several values
 */
export type Feature = "annotations" | "audio" | "messages" | "titles" | "structure" | "links" | "questions" | "choices";

export type Transport = "stdio" | "sse" | "http";

/** Where the server is: at a URL, or a command that speaks on stdin and stdout. */
export type Place =
  | { transport: "sse" | "http"; url: string }
  | { transport: "stdio"; command: string; args: string[]; onStderr: (text: string) => void };

/** One client of the table. */
export interface ClientRow {
  /** The package and its version. */
  name: string;
  /** How it settles the era: it initializes, it probes with server/discover, or it insists on one revision. */
  manner: "initializes" | "probes" | "falls back" | "insists";
  era: Era;
  /** The revision that it is expected to agree upon. */
  revision: string;
  /** Those it knows. */
  transports: readonly Transport[];
  can: readonly Feature[];
  /** The code that it tells of a resource that there is not. */
  notFound: -32002 | -32602;
  /** What it does when the stream of a request is lost: takes it up again by itself, or when it is told to. */
  resumes?: "by itself" | "when told";
  connect(place: Place): Promise<Peer>;
}

export interface CallOptions {
  signal?: AbortSignal;
  onProgress?: (p: Progress) => void;
  /** Is told the id of each event of the call's stream that has one. */
  onEvent?: (id: string) => void;
  /** Takes up the stream of an earlier call, after the event of this id, instead of making a new one. */
  after?: string;
}

export interface Progress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

export interface Named {
  name: string;
  title?: string | undefined;
  description?: string | undefined;
  uri?: string | undefined;
  mimeType?: string | undefined;
}

export interface Tool extends Named {
  inputSchema: Record<string, unknown>;
  outputSchema?: Record<string, unknown> | undefined;
  annotations?: { title?: string | undefined; readOnlyHint?: boolean | undefined } | undefined;
}

export interface Prompt extends Named {
  arguments?: { name: string; required?: boolean | undefined }[] | undefined;
}

export interface ToolResult {
  content: Content[];
  structuredContent?: unknown;
  isError?: boolean | undefined;
}

/** A block of content. Which members it has, its type says. */
export interface Content {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  uri?: string;
  name?: string;
  resource?: Contents;
}

/** What a resource holds. */
export interface Contents {
  uri: string;
  mimeType?: string | undefined;
  text?: string;
  blob?: string;
}

export type Completable = { type: "ref/prompt"; name: string } | { type: "ref/resource"; uri: string };

export interface LogMessage {
  level: string;
  logger?: string | undefined;
  data: unknown;
}

/** A form that the server wants filled in. */
export interface Ask {
  message: string;
  requestedSchema: { properties: Record<string, unknown> };
}

export type Answer =
  | { action: "accept"; content: Record<string, string | number | boolean | string[]> }
  | { action: "decline" }
  | { action: "cancel" };
