// Where a front end begins: a dashboard in a cell's output or beside the notebook, or a recorded run.

export default {
  render({ model, el }) {
    if (model.get("last")) return replayOf(model, el);
    const view = model.get("docked") ? new Dock(model, el) : new View(model, el);
    return () => view.close();
  },
};
