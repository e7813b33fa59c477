// Makes the suite's servers answer initialize with an old revision, and logs it. By default the suite accepts the
// proposed one, which is 2025-11-25: --spec-version only selects the scenarios and their schema.
//
// Preloaded into the suite: PIN_VERSION=2024-11-05 PIN_LOG=file node --import ./pinserver.mjs ...
import { appendFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const { PIN_VERSION: version, PIN_LOG: log } = process.env;
if (!version || !log) throw new Error('pinserver.mjs: set PIN_VERSION and PIN_LOG');

// The SDK of the suite, of all installed ones, in the module format that the suite imports.
const suite = createRequire(process.argv[1]);
const sdk = dirname(suite.resolve('@modelcontextprotocol/sdk/server/index.js'));
const { Server } = await import(pathToFileURL(join(sdk.replace(/([/\\])cjs([/\\])/, '$1esm$2'), 'index.js')));

const initialize = Server.prototype._oninitialize;
if (!initialize) throw new Error('pinserver.mjs: the SDK has no Server._oninitialize any more');

Server.prototype._oninitialize = async function (request) {
  const result = await initialize.call(this, request);
  appendFileSync(log, `${version}\n`);
  return { ...result, protocolVersion: version };
};
