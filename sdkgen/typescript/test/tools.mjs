// A backend for the tests of a process. It imports the built package: run `npm run build` first.
console.log("printed before the import"); // Imports come first all the same: what is printed before run() is log.
import { spawnSync } from "node:child_process";
import { readFileSync, readSync, writeSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { app, McpError, NotFound, toolResult, user } from "../dist/index.js";

console.log("printed after the import");
const a = app("test", "1.0.0", { instructions: "Test it.", declares: ["prompts"] });

a.tool("add", { input: { a: z.number(), b: z.number() }, output: { sum: z.number() } }, ({ a, b }) => ({ sum: a + b }));
a.tool("echo", { input: { text: z.string() } }, ({ text }) => text);
a.tool("loud", {}, () => {
  console.log("printed");
  process.stdout.write("written\n");
  writeSync(1, "written to fd 1\n");
  spawnSync("echo", ["echoed by a child"], { stdio: "inherit" });
  return "ok";
});
a.tool("slow", { input: { ms: z.number() } }, async ({ ms }, ctx) => {
  ctx.signal.addEventListener("abort", () => console.log("slow was aborted"));
  await ctx.progress(0);
  await sleep(ms);
  return "slept";
});
a.tool("steps", { input: { n: z.number() } }, async ({ n }, ctx) => {
  for (let i = 0; i < n; i++) {
    void ctx.progress(i, n);
    await ctx.log.info(i);
  }
  return "done";
});
a.tool("late", {}, (_, ctx) => {
  setTimeout(() => void ctx.progress(1), 20);
  return "early";
});
a.tool("greet", {}, async (_, ctx) => {
  try {
    const answer = await ctx.elicit("Name?", { name: z.string() });
    return answer.accepted ? `Hello ${answer.data.name}` : `You ${answer.action}`;
  } catch {
    return "swallowed";
  }
});
a.tool("survey", {}, async (_, ctx) => {
  const [name, colour] = await ctx.all([ctx.elicit("Name?", z.string()), ctx.elicit("Colour?", z.string())]);
  const size = await ctx.elicit(`Size, ${name.data}?`, z.number());
  return `${name.data} ${colour.data} ${size.data}`;
});
a.tool("advise", {}, async (_, ctx) => {
  const turns = [user("1 + 2?")];
  for (;;) {
    const sample = await ctx.sample(turns, { tools: ["add"] });
    if (!sample.toolCalls.length) return sample.text;
    turns.push(sample.turn, user(...sample.toolCalls.map((c) => toolResult(c, { sum: c.input.a + c.input.b }))));
  }
});
a.tool("later", { input: { n: z.number() } }, async ({ n }) => {
  for (let i = 0; i < n % 5; i++) await new Promise(setImmediate);
  return String(n);
});
a.tool("big", { input: { size: z.number() } }, ({ size }) => "x".repeat(size));
let shouted = 0;
a.tool("shout", { input: { n: z.number(), size: z.number() } }, async ({ n, size }, ctx) => {
  for (let i = 0; i < n; i++, shouted++) await ctx.log.info("x".repeat(size));
  return "done";
});
a.tool("shouted", {}, () => String(shouted));
a.tool("rush", { input: { n: z.number() } }, ({ n }, ctx) => {
  for (let i = 0; i < n; i++) void ctx.progress(i);
  return "rushed";
});
a.tool("stubborn", {}, async (_, ctx) => {
  const aborted = new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
  await ctx.progress(0);
  await aborted;
  for (let i = 1; i < 200; i++) await ctx.progress(i);
  console.log("stubborn went on");
  return "done";
});
a.tool("children", {}, () => spawnSync("env").stdout.toString());
a.tool("circular", {}, () => {
  const data = {};
  data.data = data;
  throw new McpError(-32042, "around", data);
});
a.tool("exact", {}, () => {
  throw new McpError(-31042, "exactly this", { n: [1] });
});
a.tool("crash", {}, () => {
  throw new TypeError("no such thing");
});
a.tool("forget", {}, () => {
  void Promise.reject(new Error("not awaited"));
  return "ok";
});
a.tool("stdin", { input: { how: z.string() } }, async ({ how }) => {
  if (how === "question") return await createInterface({ input: process.stdin }).question("Name? ");
  if (how === "readFileSync") return readFileSync(0, "utf8");
  if (how === "/dev/stdin") return readFileSync("/dev/stdin", "utf8");
  if (how === "readSync") return String(readSync(0, Buffer.alloc(1)));
  if (how === "pipe") return process.stdin.pipe(process.stderr) && "piped";
  for await (const chunk of process.stdin) return String(chunk);
  return "nothing";
});
a.tool("block", {}, () => {
  for (;;);
});
a.tool("grow", { input: { name: z.string() } }, ({ name }) => {
  a.tool(name, {}, () => name);
  a.prompt(name, {}, () => user("Hi"));
});
a.tool("touch", { input: { uri: z.string() } }, ({ uri }, ctx) => ctx.notifyUpdated(uri));
let finish;
const finished = new Promise((resolve) => (finish = resolve));
a.tool("report", { task: true }, async (_, ctx) => {
  await ctx.progress(1, 12, "reading");
  const { data } = await ctx.elicit("Name?", { name: z.string() });
  await finished;
  return `of ${data.name}`;
});
a.tool("finish", {}, () => finish());
a.tool("starts_later", { task: { required: true, startsLater: true } }, async (_, ctx) => {
  const { data } = await ctx.elicit("Name?", { name: z.string() });
  await ctx.startTask();
  await ctx.elicit("Sure?", { name: z.string() });
  return `for ${data.name}`;
});
a.resource("note:{name}", {}, ({ name }) => {
  if (name === "none") throw new NotFound("no such note");
  return `the note ${name}`;
});

console.log("printed before run");
await a.run();
console.log("run returned");
