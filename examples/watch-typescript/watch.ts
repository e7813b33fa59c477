// Watches a folder. Its files are resources: clients are notified of additions, removals and changes.
import { isUtf8 } from "node:buffer";
import { EventEmitter, once } from "node:events";
import { readdir, readFile, stat, watch } from "node:fs/promises";
import { join, relative, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { app, embedded, link, NotFound, ToolError, user } from "mcpbridge";
import { z } from "zod";

const { positionals } = parseArgs({ options: { listen: { type: "string" } }, allowPositionals: true });
const folder = resolve(positionals[0] ?? ".");
const files = new Map<string, string>(); // Their URIs, by their paths in the folder.
const changes: { file: string; what: "added" | "changed" | "removed"; at: string }[] = [];
const emitter = new EventEmitter().setMaxListeners(0);

const a = app("watch", "1.0.0", { declares: ["resources"], instructions: `The resources are the files of ${folder}.` });

// Files.

async function read(file: string): Promise<string | Buffer> {
  const data = await readFile(join(folder, file)).catch(() => {
    throw new NotFound(`${file} was removed`);
  });
  return isUtf8(data) ? data.toString() : data;
}

/** Updates the resource of a file, or those of all files in a folder, and records the change. */
async function update(path: string, quiet = false): Promise<void> {
  if (path.split("/").some((part) => (part.startsWith(".") && part !== ".") || part === "node_modules")) return;
  const stats = await stat(join(folder, path)).catch(() => undefined);
  if (stats?.isDirectory()) {
    for (const name of await readdir(join(folder, path))) await update(join(path, name), quiet);
  } else if (!stats) {
    for (const [file, uri] of files) {
      if (file !== path && !file.startsWith(`${path}/`)) continue;
      files.delete(file);
      a.removeResource(uri);
      record(file, "removed");
    }
  } else if (files.has(path)) {
    a.notifyUpdated(files.get(path)!);
    record(path, "changed");
  } else if (stats.isFile()) {
    const uri = pathToFileURL(join(folder, path)).href;
    files.set(path, uri);
    a.resource(uri, { name: path, size: stats.size }, () => read(path));
    if (!quiet) record(path, "added");
  }
}

function record(file: string, what: "added" | "changed" | "removed"): void {
  changes.push({ file, what, at: new Date().toISOString() });
  if (changes.length > 100) changes.shift();
  emitter.emit("change");
}

// Tools.

a.tool("search", {
  description: "Find the lines that hold a text.",
  readOnly: true,
  input: { text: z.string().min(1) },
}, async ({ text }, ctx) => {
  const found = [];
  let done = 0;
  for (const [file, uri] of files) {
    ctx.signal.throwIfAborted();
    await ctx.progress(++done, files.size, file);
    const lines = (await read(file)).toString().split("\n");
    const hits = lines.flatMap((line, i) => (line.includes(text) ? [`${file}:${i + 1}: ${line.trim()}`] : []));
    if (hits.length) found.push(hits.join("\n"), link(uri, { name: file }));
  }
  return found.length ? found : "no file holds that";
});

const Changes = z.array(
  z.object({ file: z.string(), what: z.enum(["added", "changed", "removed"]), at: z.iso.datetime() }),
);

a.tool(
  "changes",
  { description: "What has changed since the start, the last first.", readOnly: true, output: Changes },
  () => changes.toReversed(),
);

a.tool(
  "wait_for_change",
  {
    description: "Wait until a file changes.",
    readOnly: true,
    input: { seconds: z.number().positive().max(600).default(60) },
  },
  async ({ seconds }, ctx) => {
    const signal = AbortSignal.any([ctx.signal, AbortSignal.timeout(seconds * 1000)]);
    const change = once(emitter, "change", { signal }).catch(() => {
      throw new ToolError(`nothing has changed for ${seconds} s`);
    });
    await ctx.progress(0, 1, "watching");
    await change;
    const { file, what } = changes.at(-1)!;
    return `${file} was ${what}`;
  },
);

// Prompts.

a.prompt(
  "explain",
  {
    description: "Explain a file.",
    arguments: { file: z.string().describe("Its path in the folder") },
    complete: { file: (typed) => [...files.keys()].filter((f) => f.startsWith(typed)) },
  },
  async ({ file }) => {
    const uri = files.get(file);
    if (!uri) throw new NotFound(`there is no file ${file}`);
    return [user("Explain this file:", embedded(uri, await read(file)))];
  },
);

// Watching.

async function keepWatching(): Promise<void> {
  const pending = new Set<string>();
  for await (const { filename } of watch(folder, { recursive: true })) {
    if (filename === null || pending.has(filename)) continue;
    pending.add(filename);
    // Editors write a file in several steps.
    void sleep(50).then(() => {
      pending.delete(filename);
      return update(relative(folder, join(folder, filename)));
    });
  }
}

await update(".", true);
void keepWatching();
await a.run();
