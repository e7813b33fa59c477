package dev.mcpbridge;

import io.grpc.Status;

/**
 * Ends a call with a gRPC status: NOT_FOUND and the like, which the bridge knows the JSON-RPC code of. Not gRPC's own exception,
 * which a tool throws that is a gRPC client, and which is that tool's failure.
 */
final class CallStatus extends RuntimeException {
  private static final long serialVersionUID = 1;

  final transient Status status;

  CallStatus(Status.Code code, String message) {
    super(message);
    // A status travels in the trailers, which have little room.
    this.status = code.toStatus().withDescription(message.length() <= 1000 ? message : message.substring(0, 1000));
  }
}
