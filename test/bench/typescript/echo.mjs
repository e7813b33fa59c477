// The tool the benchmark calls, in TypeScript's SDK: it answers its arguments as text.
import { app } from "mcpbridge";
import { z } from "zod";

const a = app("bench", "1");
const input = { text: z.string() };
a.tool(
  "echo",
  { description: "Answers its arguments.", readOnly: true, input },
  ({ text }) => JSON.stringify({ text }),
);
await a.run();
