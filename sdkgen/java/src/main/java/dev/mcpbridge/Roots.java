package dev.mcpbridge;

import dev.mcpbridge.v1.InputResponse;
import dev.mcpbridge.v1.Root;
import java.util.AbstractList;
import java.util.List;

/** The client's root directories. Reading them without an answer ends the round. */
public final class Roots extends AbstractList<Root> {
  private final Context ctx;
  private final InputResponse response;

  Roots(Context ctx, InputResponse response) {
    this.ctx = ctx;
    this.response = response;
  }

  void requireAnswer() {
    Question.requireAnswer(ctx, response);
  }

  private List<Root> list() {
    requireAnswer();
    return response.getListRoots().getRootsList();
  }

  @Override
  public Root get(int index) {
    return list().get(index);
  }

  @Override
  public int size() {
    return list().size();
  }
}
