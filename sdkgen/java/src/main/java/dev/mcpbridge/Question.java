package dev.mcpbridge;

import dev.mcpbridge.v1.InputError;
import dev.mcpbridge.v1.InputResponse;

/** A question and its answer. Reading a missing answer ends the round. */
abstract sealed class Question permits Answer, Sample {
  private final Context ctx;
  private final InputResponse response;

  Question(Context ctx, InputResponse response) {
    this.ctx = ctx;
    this.response = response;
  }

  /** Ends the round if there is no answer, and throws the error if the question failed. */
  void requireAnswer() {
    requireAnswer(ctx, response);
  }

  final InputResponse response() {
    requireAnswer(ctx, response);
    return response;
  }

  static void requireAnswer(Context ctx, InputResponse response) {
    if (response == null) {
      throw ctx.endRound();
    }
    if (response.hasError()) {
      throw exceptionOf(response.getError());
    }
  }

  private static ToolException exceptionOf(InputError error) {
    String message = error.getMessage();
    return switch (error.getReason()) {
      case REASON_UNSUPPORTED -> new UnsupportedException(
          "This client cannot be asked this: " + message + ". Ask the user yourself and call again.");
      case REASON_NO_ANSWER -> new NoAnswerException(message.isEmpty() ? "the client did not answer in time" : message);
      default -> new RefusedException(message.isEmpty() ? "the client refused to answer" : message);
    };
  }
}
