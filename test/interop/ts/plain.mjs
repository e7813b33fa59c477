// A client of each era calls a backend that has the tool `add`, such as examples/plain-rust.
//
//   node plain.mjs ../../../bin/mcpbridge run --stdio -- ./backend
import { clients } from "./clients.mjs";

/** @import { ToolResult } from "./peer.ts" */

const [command = "", ...args] = process.argv.slice(2);
for (const era of ["legacy", "modern"]) {
  const client = clients.find((c) => c.era === era);
  if (!client) throw new Error(`no client of the ${era} era is in the table`);
  const peer = await client.connect({ transport: "stdio", command, args, onStderr: () => undefined });
  try {
    const names = (await peer.tools()).map((t) => t.name).join();
    expect(names === "add", `the tools are ${names}`);
    const sum = await peer.call("add", { a: 2, b: 40 });
    expect(!sum.isError && text(sum) === "42", `2 + 40 is ${text(sum)}`);
    const incomplete = await peer.call("add", { a: 2 });
    expect(incomplete.isError === true, `arguments that break the schema are answered with ${text(incomplete)}`);
    const refused = await peer.call("subtract", {}).then(text, (/** @type {unknown} */ e) => String(e));
    expect(refused.includes("there is no tool 'subtract'"), `a tool that does not exist is answered with ${refused}`);
    console.log(`${client.name}, ${peer.revision}: lists and calls it`);
  } finally {
    await peer.close();
  }
}

/** @param {ToolResult} result */
function text(result) {
  return result.content.map((c) => c.text ?? "").join("\n");
}

/** @type {(holds: boolean, otherwise: string) => asserts holds} */
function expect(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}
