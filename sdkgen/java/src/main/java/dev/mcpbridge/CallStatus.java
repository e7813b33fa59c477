package dev.mcpbridge;

import io.grpc.Status;

/**
 * Fails a call with a gRPC status, such as NOT_FOUND, which the bridge converts to a JSON-RPC code. It is not gRPC's
 * own exception: a tool that is a gRPC client may throw that, which is a failure of the tool.
 */
final class CallStatus extends RuntimeException {
  private static final long serialVersionUID = 1;

  final transient Status status;

  CallStatus(Status.Code code, String message) {
    super(message);
    // A status is sent in the trailers, which are limited.
    this.status = code.toStatus().withDescription(message.length() <= 1000 ? message : message.substring(0, 1000));
  }
}
