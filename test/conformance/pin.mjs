// Makes the suite's client propose an old revision, and logs the server's answer. By default the suite proposes
// 2025-11-25 in nearly every handshake: --spec-version only selects the scenarios and their schema.
//
// Preloaded into the suite: PIN_VERSION=2024-11-05 PIN_LOG=file node --import ./pin.mjs ...
import { appendFileSync } from 'node:fs';

const { PIN_VERSION: version, PIN_LOG: log } = process.env;
if (!version || !log) throw new Error('pin.mjs: set PIN_VERSION and PIN_LOG');

const send = globalThis.fetch;

globalThis.fetch = async (url, init) => {
  const message = parse(init?.body);
  if (message?.method !== 'initialize') return send(url, init);

  message.params.protocolVersion = version;
  const headers = new Headers(init.headers);
  if (headers.has('mcp-protocol-version')) headers.set('mcp-protocol-version', version);
  const response = await send(url, { ...init, headers, body: JSON.stringify(message) });
  const answer = parse(await response.clone().text());
  appendFileSync(log, `${answer?.result?.protocolVersion ?? `HTTP ${response.status} without a version`}\n`);
  return response;
};

function parse(text) {
  if (typeof text !== 'string') return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined; // no JSON, so no initialize
  }
}
