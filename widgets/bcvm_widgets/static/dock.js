// A dashboard beside the notebook: a panel of the page's own at its right edge, for which JupyterLab or Notebook 7 makes room.
//
// Both lay themselves out within the element `#main` and do so again when the window's size changes; nothing else of theirs is used, so
// no extension is needed. Elsewhere (VS Code, Voila) a cell's output has no page around it that could make room: it is shown there.

const DOCK = { least: 320, share: 0.45, most: 0.8 };

class Dock {
  constructor(model, element) {
    this.model = model;
    this.home = element;
    this.shell = document.querySelector("body > #main.lm-Widget");
    this.onResize = () => this.place(this.width);
    if (this.shell) this.open();
    else this.settle("There is no room beside the notebook in this front end, so the dashboard is shown here.");
  }

  open() {
    Dock.current?.settle("");
    Dock.current = this;
    this.view?.close();
    const back = make("button", { type: "button", class: "bcvm-button", onclick: () => this.settle("") }, "Into the notebook");
    this.edge = make("div", {
      class: "bcvm-dock-edge",
      role: "separator",
      tabindex: "0",
      "aria-orientation": "vertical",
      "aria-label": "Width of the dashboard",
      onkeydown: (event) => this.key(event),
      onpointerdown: (event) => this.drag(event),
    });
    const body = make("div", { class: "bcvm-dock-body" });
    const head = make("header", { class: "bcvm-dock-head" }, make("strong", {}, "BCVM beside the notebook"), back);
    this.panel = make("aside", { class: "bcvm-dock", "aria-label": "Docked dashboard" }, this.edge, head, body);
    document.body.append(this.panel);
    const again = make("button", { type: "button", class: "bcvm-button", onclick: () => back.click() }, "Show it here");
    this.home.replaceChildren(make("p", { class: "bcvm-docked" }, "The dashboard is docked beside the notebook. ", again));
    window.addEventListener("resize", this.onResize);
    this.place(DOCK.share * window.innerWidth);
    this.view = new View(this.model, body);
  }

  // Back into the cell's output, with a line that says why, if there is anything to say.
  settle(why) {
    this.leave();
    this.view?.close();
    const dock = make("button", { type: "button", class: "bcvm-button", onclick: () => this.open() }, "Dock it beside the notebook");
    this.home.replaceChildren(make("p", { class: "bcvm-docked" }, why, ...(this.shell ? [dock] : [])));
    this.view = new View(this.model, this.home);
  }

  place(width) {
    if (!this.panel) return;
    this.width = Math.max(DOCK.least, Math.min(width, DOCK.most * window.innerWidth));
    this.panel.style.width = `${this.width}px`;
    this.edge.setAttribute("aria-valuenow", String(Math.round((100 * this.width) / window.innerWidth)));
    const room = `calc(100% - ${this.width}px)`;
    if (this.shell.style.width === room) return;
    this.shell.style.width = room;
    window.dispatchEvent(new Event("resize")); // it lays itself out again
  }

  leave() {
    if (Dock.current === this) Dock.current = null;
    if (!this.panel) return;
    window.removeEventListener("resize", this.onResize);
    this.panel.remove();
    this.panel = null;
    this.shell.style.width = "";
    window.dispatchEvent(new Event("resize"));
  }

  key(event) {
    const step = { ArrowLeft: 40, ArrowRight: -40 }[event.key];
    if (!step) return;
    this.place(this.width + step);
    event.preventDefault();
    event.stopPropagation();
  }

  drag(event) {
    this.edge.setPointerCapture(event.pointerId);
    this.edge.onpointermove = (moved) => this.place(window.innerWidth - moved.clientX);
    this.edge.onpointerup = () => (this.edge.onpointermove = null);
    event.preventDefault();
  }

  close() {
    this.leave();
    this.view.close();
  }
}
