/** Errors of calls as gRPC statuses, whose details contain the exact JSON-RPC error if there is one. */
import { inspect } from "node:util";

import { status } from "@grpc/grpc-js";

import { McpError } from "./errors.js";
import type { Status } from "./gen/google/rpc/status.js";
import type { CallContext } from "./gen/mcpbridge/v1/service.js";
import { JsonRpcError } from "./gen/mcpbridge/v1/error.js";
import { toExactJson } from "./json.js";
import { report } from "./stdout.js";

/** Fails a call with a gRPC status, such as NOT_FOUND, which the bridge converts to a JSON-RPC code. */
export class StatusError extends Error {
  constructor(
    readonly code: status,
    message: string,
  ) {
    super(message);
  }
}

/** The version of the contract, mcpbridge.v1, that the SDK was built with. */
export const CONTRACT_VERSION = 2;

/** Returns the request. Throws if the bridge has another version of the contract; version 1 did not have the field. */
export function checkContract<R extends { context?: CallContext | undefined }>(request: R): R {
  const version = request.context?.verified?.contractVersion || 1;
  if (version === CONTRACT_VERSION) return request;
  throw new StatusError(
    status.FAILED_PRECONDITION,
    `the bridge has version ${String(version)} of the contract, and this SDK has version ${
      String(CONTRACT_VERSION)
    }: ` +
      "install an mcpbridge and an SDK of the same release",
  );
}

const CODES: Record<number, status> = {
  [-32600]: status.INVALID_ARGUMENT,
  [-32601]: status.UNIMPLEMENTED,
  [-32602]: status.INVALID_ARGUMENT,
  [-32603]: status.INTERNAL,
};

/** Returns the status of an error that App threw. */
export function statusOf(e: unknown): Status & { code: status } {
  if (e instanceof StatusError) return { code: e.code, message: e.message, details: [] };
  if (!(e instanceof McpError)) {
    report("error", `mcpbridge: bug in the SDK: ${inspect(e)}`);
    return { code: status.INTERNAL, message: e instanceof Error ? e.message : String(e), details: [] };
  }
  const value = JsonRpcError.encode({ code: e.code, message: e.message, data: dataOf(e) }).finish();
  const details = [{ typeUrl: "type.googleapis.com/mcpbridge.v1.JsonRpcError", value }];
  return { code: CODES[e.code] ?? status.UNKNOWN, message: e.message, details };
}

function dataOf(e: McpError): string {
  if (e.data === undefined) return "";
  try {
    return toExactJson(e.data);
  } catch (cause) {
    report("error", `mcpbridge: dropped the data of an McpError, which is not JSON: ${inspect(cause)}`);
    return "";
  }
}
