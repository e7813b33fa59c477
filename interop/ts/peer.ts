/** What the tour asks of a client, whoever wrote it. */
export interface Peer {
  /** The revision that client and server agreed upon. */
  readonly revision: string;
  /** Log messages in the order in which they came. */
  readonly logs: readonly LogMessage[];
  /** What the client itself found wrong with what it was sent. */
  readonly complaints: readonly string[];
  /** Answers every elicitation from now on; the last one set wins. */
  answer(reply: (ask: Ask) => Answer): void;
  /** Sets the least severe level that the server sends, in the way of the era. */
  logLevel(level: "debug" | "info"): Promise<void>;
  tools(): Promise<Tool[]>;
  /** Resolves when the server next says that the tools have changed. */
  toolsChange(): Promise<void>;
  call(name: string, args: Record<string, unknown>, options?: CallOptions): Promise<ToolResult>;
  close(): Promise<void>;
}

/** Where the server is: at a URL, or a command that speaks on stdin and stdout. */
export type Place = { url: string } | { command: string; args: string[]; onStderr: (text: string) => void };

/** One client of the table. */
export interface ClientRow {
  /** The package and its version. */
  name: string;
  /** How it settles the era: it initializes, it probes with server/discover, or it insists on one revision. */
  manner: "initializes" | "probes" | "insists";
  era: "legacy" | "modern";
  /** The revision that it is expected to agree upon. */
  revision: string;
  connect(place: Place): Promise<Peer>;
}

export interface CallOptions {
  signal?: AbortSignal;
  onProgress?: (p: Progress) => void;
}

export interface Progress {
  progress: number;
  total?: number | undefined;
  message?: string | undefined;
}

export interface Tool {
  name: string;
  description?: string | undefined;
  inputSchema: Record<string, unknown>;
  outputSchema?: Record<string, unknown> | undefined;
}

export interface ToolResult {
  content: { type: string; text?: string }[];
  structuredContent?: unknown;
  isError?: boolean | undefined;
}

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
