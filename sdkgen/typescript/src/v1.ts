/** The generated messages of the contract, for exact control, and the details of a status for clients. */
export { ErrorInfo, RetryInfo } from "./gen/google/rpc/error_details.js";
export { Status } from "./gen/google/rpc/status.js";
export * from "./gen/mcpbridge/v1/capability.js";
export * from "./gen/mcpbridge/v1/common.js";
export * from "./gen/mcpbridge/v1/error.js";
export * from "./gen/mcpbridge/v1/input.js";
export * from "./gen/mcpbridge/v1/service.js";
export * from "./gen/mcpbridge/v1/tool.js";
