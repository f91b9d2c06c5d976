// Where a front end begins: a dashboard, or a recorded run.

export default {
  render({ model, el }) {
    if (model.get("last")) return replayOf(model, el);
    const view = new View(model, el);
    return () => view.close();
  },
};
