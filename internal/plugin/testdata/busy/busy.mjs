// A tool that keeps the process from answering, and one that answers.
import { readFileSync } from "node:fs";
import { App } from "../../../../sdkgen/typescript/dist/index.js";

const app = new App("busy", { version: "1" });

app.tool("blocked", { description: "Blocks the event loop.", input: { type: "object" } }, ({ fifo }) => {
  process.stderr.write("blocked begins\n");
  readFileSync(fifo); // Until something is written to it.
  return "blocked";
});
app.tool("echo", { description: "Answers.", input: { type: "object" } }, ({ text }) => text);

await app.run();
