/** The interface of all clients for the tour. */
export interface Peer {
  /** The negotiated revision. */
  readonly revision: string;
  /** Log messages in the order of their arrival. */
  readonly logs: readonly LogMessage[];
  /** The errors that the client library reported. */
  readonly errors: readonly string[];
  /** Resolves when the client library has reported an error that contains `part`. */
  waitForError(part: string): Promise<void>;
  /** The URIs of the client's roots. */
  readonly roots: readonly string[];
  /** Sets the function that answers elicitations. */
  onElicitation(reply: (ask: Ask) => Answer): void;
  /** Sets the function that answers sampling requests. */
  onSampling(reply: (prompt: string) => string): void;
  /** Sets the minimum level of log messages, as in the era of the client. */
  logLevel(level: "debug" | "info"): Promise<void>;
  /** Resolves at the next change notification: of the "tools", the "prompts", or the resource with a URI. */
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
  /** Returns the completions of an argument. */
  complete(of: Completable, argument: string, value: string): Promise<string[]>;
  close(): Promise<void>;
}

export type Era = "legacy" | "modern";

/**
 * A feature that not all clients support. Without it, the tour expects a replacement.
 *
 * - annotations: tools have annotations, and a title among them
 * - audio: content can be audio
 * - messages: progress has messages
 * - titles: tools have a title of their own
 * - structure: results are structured, and tools have output schemas
 * - links: content can be a link to a resource
 * - questions: the user can be asked
 * - choices: a question can be answered by several values
 */
export type Feature = "annotations" | "audio" | "messages" | "titles" | "structure" | "links" | "questions" | "choices";

export type Transport = "stdio" | "sse" | "http";

/** The server: its URL, or a command that serves on stdin and stdout. */
export type Place =
  | { transport: "sse" | "http"; url: string }
  | { transport: "stdio"; command: string; args: string[]; onStderr: (text: string) => void };

/** One client of the table. */
export interface ClientRow {
  /** The package and its version. */
  name: string;
  /** How it negotiates: it initializes, probes with server/discover, or requires one revision. */
  manner: "initializes" | "probes" | "falls back" | "requires this revision";
  era: Era;
  /** The expected revision. */
  revision: string;
  /** The transports that it supports. */
  transports: readonly Transport[];
  features: readonly Feature[];
  /** The code that it reports for an unknown resource. */
  notFound: -32002 | -32602;
  /** Whether it resumes a lost stream automatically or on request. */
  resumes?: "by itself" | "on request";
  connect(place: Place): Promise<Peer>;
}

export interface CallOptions {
  signal?: AbortSignal;
  onProgress?: (p: Progress) => void;
  /** Called with the id of each event of the call's stream that has one. */
  onEvent?: (id: string) => void;
  /** Resumes the stream of an earlier call after the event with this id, instead of calling again. */
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

/** A block of content. Its type determines its members. */
export interface Content {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  uri?: string;
  name?: string;
  resource?: Contents;
}

/** The contents of a resource. */
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

/** An elicitation with a form. */
export interface Ask {
  message: string;
  requestedSchema: { properties: Record<string, unknown> };
}

export type Answer =
  | { action: "accept"; content: Record<string, string | number | boolean | string[]> }
  | { action: "decline" }
  | { action: "cancel" };
