// The view of a dashboard.

class View {
  // `clock`: of a recorded run, which has no kernel to be told; null: it is live.
  constructor(model, element, clock = null) {
    this.model = model;
    this.recordedClock = clock;
    this.id = crypto.randomUUID?.() ?? String(Math.random());
    this.chosen = null; // the unit the user chose, by key
    this.unit = null;
    this.pointed = this.pinned = null;
    this.scrolls = new Map(); // of the panes, by the key of the unit
    this.held = false; // paused here, whether or not the kernel has heard of it
    this.started = null;
    this.build(element);
    this.handlers = {
      "change:listing": () => this.showAll(),
      "change:choices": () => this.showChoices(),
      "change:figures": () => this.showFigures(),
      "change:latencies": () => this.showLatencies(),
      "change:fusion": () => this.showFusion(),
      "change:cache": () => this.showCache(),
      "msg:custom": (answer) => answer?.version === VERSION && answer.view === this.id && this.cache.hear(answer),
      "change:code": () => this.showCode(),
      "change:diff": () => this.compare.show(this.model.get("diff")),
      "change:status": () => this.showStatus(),
    };
    for (const [name, handler] of Object.entries(this.handlers)) model.on(name, handler);
    this.onHide = () => this.send("hidden");
    this.onShow = (event) => event.persisted && this.send("shown");
    window.addEventListener("pagehide", this.onHide);
    window.addEventListener("pageshow", this.onShow);
    this.showStatus();
    this.showAll();
    this.compare.show(this.model.get("diff"));
    this.send("shown");
  }

  close() {
    for (const [name, handler] of Object.entries(this.handlers)) this.model.off(name, handler);
    window.removeEventListener("pagehide", this.onHide);
    window.removeEventListener("pageshow", this.onShow);
    clearInterval(this.timer);
    clearTimeout(this.calm);
    clearTimeout(this.revealing);
    this.latencies.close();
    this.cache.close();
    this.send("hidden");
  }

  send(command) {
    this.post({ command, cell: this.model.get("status")?.cell ?? 0 });
  }

  post(content) {
    try {
      this.model.send({ version: VERSION, view: this.id, ...content });
    } catch {
      // no kernel behind a saved notebook
    }
  }

  // Ask for the machine code of a kernel, by its number or (-1) by the instruction that is held or pointed at.
  askForCode(kernel) {
    const select = this.pinned ?? this.pointed;
    const instruction = this.links(select).instructions.find((n) => this.unit.instructions[n].op) ?? -1;
    this.post({ command: "code", unit: this.unit?.key ?? "", kernel, instruction });
  }

  showCode() {
    this.machine.show(this.model.get("code"), this.unit);
    this.showLinks();
  }

  build(element) {
    this.state = make("span", { class: "bcvm-state", role: "status" });
    this.time = make("span", { class: "bcvm-time", "aria-hidden": "true" });
    this.pulse = new Pulse();
    this.ops = make("span", { class: "bcvm-ops" });
    this.share = make("span", { class: "bcvm-by-vm", title: "tensor ops that kernels ran; the rest was left to Python" });
    this.spent = make("span", { class: "bcvm-spent", title: "time in kernels" });
    this.totals = make("span", { class: "bcvm-totals" }, this.ops, this.share, this.spent);
    this.pause = make("button", { type: "button", class: "bcvm-button", onclick: () => this.hold(!this.held) });
    this.stop = make("button", {
      type: "button",
      class: "bcvm-button bcvm-stop",
      title: "Interrupt the running cell",
      onclick: () => this.interrupt(),
    });
    this.save = make(
      "button",
      { type: "button", class: "bcvm-button bcvm-save", title: "Write the run so far to a file beside the notebook", onclick: () => this.send("save") },
      "Save",
    );
    this.said = make("span", { class: "bcvm-said", role: "status" });
    for (const control of [this.pause, this.stop, this.save]) control.hidden = Boolean(this.recordedClock);
    this.tabs = make("div", {
      class: "bcvm-tabs",
      role: "tablist",
      "aria-label": "Cell and functions",
      onkeydown: (event) => this.tabKey(event),
    });
    this.lines = new Pane("lines", "source", "line", this);
    this.code = new Pane("instructions", "bytecode", "pc", this);
    this.panes = make("div", { class: "bcvm-panes", role: "tabpanel" }, this.lines.element, this.code.element);
    this.latencies = new LatencyView();
    this.fusion = new FusionView();
    this.cache = new CacheView((order) => this.post(order));
    this.detail = make("div", { class: "bcvm-detail" });
    this.legend = new Legend();
    this.notice = make("p", { class: "bcvm-notice", role: "note" });
    const bar = make(
      "header",
      { class: "bcvm-head" },
      make("strong", { class: "bcvm-name" }, "BCVM"),
      this.state,
      this.time,
      this.pulse.element,
      this.totals,
      this.pause,
      this.stop,
      this.save,
      this.said,
    );
    this.finder = new Finder(this);
    this.machine = new MachineView((kernel) => this.askForCode(kernel), this);
    this.compare = new CompareView((left, right) => this.post({ command: "compare", unit: this.unit?.key ?? "", left, right }));
    const program = make(
      "div",
      {},
      this.notice,
      this.tabs,
      this.finder.element,
      this.panes,
      this.detail,
      this.machine.element,
      this.compare.element,
      this.legend.element,
    );
    this.views = new Views(
      [
        ["program", "Bytecode", program],
        ["latencies", "Tier latencies", this.latencies.element],
        ["fusion", "Fusion splits", this.fusion.element],
        ["cache", "Code cache", this.cache.element],
      ],
      () => [this.showLatencies(), this.showFusion(), this.showCache()],
    );
    this.root = make(
      "section",
      { class: "bcvm-dashboard", "aria-label": "BCVM dashboard" },
      bar,
      this.views.element,
      program,
      this.latencies.element,
      this.fusion.element,
      this.cache.element,
    );
    element.append(this.root);
  }

  // A message that this view can read, or null.
  read(name) {
    const value = this.model.get(name);
    const fits = value?.version === VERSION;
    if (!fits)
      this.say(
        `This view reads version ${VERSION} of the messages, the kernel sends version ${value?.version}. Reload the page.`,
      );
    return fits ? value : null;
  }

  say(text) {
    setText(this.notice, text);
    this.notice.hidden = !text;
  }

  // --- commands

  hold(on) {
    this.held = on;
    this.send(on ? "pause" : "resume");
    this.showButtons();
    if (!on) this.showAll();
  }

  interrupt() {
    this.stop.disabled = true;
    setText(this.stop, "Stopping…");
    this.send("stop");
  }

  // --- status

  showStatus() {
    const status = this.read("status");
    if (!status) return;
    const released = this.held && !status.paused;
    this.held = status.paused;
    this.running = status.running;
    clearInterval(this.timer);
    setText(this.said, this.recordedClock ? "" : (status.said ?? ""));
    if (status.running && !this.recordedClock) {
      const began = performance.now() - status.elapsed_us / 1000;
      const show = () => setText(this.time, clock((performance.now() - began) * 1000));
      if (!this.pulse.going) this.pulse.restart();
      show();
      this.timer = setInterval(show, 100);
    } else {
      setText(this.time, status.elapsed_us ? clock(status.elapsed_us) : "");
    }
    this.pulse.going = status.running;
    this.showButtons();
    if (released) this.showAll();
  }

  showButtons() {
    const word = this.held ? "Paused" : this.running ? "Running" : "Idle";
    setText(this.state, this.held && this.running ? "Paused, the cell runs on" : word);
    this.root.dataset.state = word.toLowerCase();
    setText(this.pause, this.held ? "▶ Resume" : "❚❚ Pause");
    this.pause.title = this.held ? "Go on showing what happens" : "Keep this picture; the cell runs on";
    setText(this.stop, "■ Stop");
    this.stop.disabled = !this.running;
  }

  // --- content

  showAll() {
    const listing = this.read("listing");
    if (!listing || this.held) return;
    this.showLatencies();
    this.showFusion();
    this.showCache();
    const units = listing.units;
    this.say(
      units.length ? "" : "Run a cell with tensor work: its lines and the instructions they become appear here, while it runs.",
    );
    this.root.classList.toggle("bcvm-empty", !units.length);
    const key = [this.chosen, this.unit?.key].find((wanted) => units.some((unit) => unit.key === wanted)) ?? units[0]?.key;
    this.showTabs(units, key);
    this.showUnit(units.find((unit) => unit.key === key) ?? null);
  }

  showTabs(units, key) {
    this.tabs.hidden = units.length < 2;
    this.tabs.replaceChildren(
      ...units.map((unit) => {
        const on = unit.key === key;
        const name = unit.kind === "function" ? `${unit.title}()` : unit.title;
        const share = make("span", { class: "bcvm-share" });
        const tab = make(
          "button",
          {
            type: "button",
            role: "tab",
            "aria-selected": String(on),
            tabindex: on ? "0" : "-1",
            onclick: () => this.choose(unit.key),
          },
          name,
          share,
        );
        tab.dataset.key = unit.key;
        return tab;
      }),
    );
  }

  choose(key) {
    this.chosen = key;
    this.open(key);
  }

  open(key) {
    const units = this.read("listing")?.units ?? [];
    const focused = this.tabs.contains(document.activeElement);
    this.showTabs(units, key);
    this.showUnit(units.find((unit) => unit.key === key) ?? null);
    if (focused) this.tabs.querySelector("[aria-selected=true]")?.focus();
  }

  tabKey(event) {
    const tab = tabAt(event, [...this.tabs.children]);
    if (tab) this.choose(tab.dataset.key);
  }

  showUnit(unit) {
    this.built = this.model.get("listing").generation;
    const same = unit && this.unit && JSON.stringify(unit) === JSON.stringify(this.unit);
    if (!same) {
      const panes = [this.lines, this.code];
      if (this.unit) this.scrolls.set(this.unit.key, panes.map((pane) => pane.element.scrollTop));
      const glossary = this.model.get("listing").glossary ?? {};
      this.unit = unit;
      this.pointed = this.pinned = null;
      clearTimeout(this.revealing);
      this.lines.fill(
        (unit?.lines ?? []).map((text, n) => ({ number: String(unit.first_line + n), code: sourceCell(text), text })),
      );
      let inside = false; // of a region that may be fused
      const entries = (unit?.instructions ?? []).map((instruction) => {
        inside ||= /^FUSE_(START|ACROSS)/.test(instruction.opcode);
        const entry = instructionEntry(instruction, inside, glossary);
        inside &&= instruction.opcode !== "FUSE_END";
        return entry;
      });
      this.code.fill(entries);
      this.legend.explain(glossary);
      this.machine.show(this.model.get("code"), unit);
      if (this.machine.open) this.askForCode(-1);
      panes.forEach((pane, n) => (pane.element.scrollTop = this.scrolls.get(unit?.key)?.[n] ?? 0));
    }
    this.showChoices();
  }

  showChoices() {
    const choices = this.read("choices");
    const found = this.current(choices);
    if (!found) return;
    this.lines.choose(found.lines);
    this.code.choose(found.instructions);
    this.finder.find(); // kernels are part of what can be found
    this.showFigures(); // where a kernel's time stands is a matter of the choices
  }

  showFigures() {
    const figures = this.read("figures");
    const found = this.current(figures);
    if (!found) return;
    const sum = (columns) => columns.total_us.reduce((all, us) => all + (us ?? 0), 0);
    const own = sum(found.lines);
    this.lines.figure(found.lines, own);
    this.code.figure(found.instructions, own);
    this.finder.warm();
    clearTimeout(this.calm);
    this.calm = setTimeout(() => [this.lines, this.code].forEach((pane) => pane.rest()), 400);
    const ops = figures.call_op + figures.call_host;
    setText(this.ops, ops ? `${shortCount(ops)} tensor ops` : "");
    this.ops.title = ops ? `${count(ops)} tensor ops` : "";
    const part = Math.min(figures.call_host ? 99.9 : 100, (100 * figures.call_op) / Math.max(1, ops));
    setText(this.share, ops ? (figures.call_host ? `${part.toFixed(1)}% by kernels` : "all by kernels") : "");
    setText(this.spent, figures.kernels_us ? `${duration(figures.kernels_us)} in kernels` : "");
    if (this.running) this.pulse.add(ops, this.recordedClock?.() ?? performance.now());
    this.showShares(figures);
    this.showDetail();
  }

  showLatencies = () => this.showIn(this.latencies, "latencies");
  showFusion = () => this.showIn(this.fusion, "fusion");
  showCache = () => this.showIn(this.cache, "cache");

  // The latest message, or while the picture is held the one that is shown.
  showIn(view, name) {
    const message = this.held && view.message ? view.message : this.read(name);
    if (message) view.show(message, this.held);
  }

  // The tabs say how the time divides; unless the user chose one, the busiest is open.
  showShares(figures) {
    const sums = new Map(
      Object.entries(figures.units).map(([key, unit]) => [key, unit.lines.total_us.reduce((all, us) => all + (us ?? 0), 0)]),
    );
    const all = [...sums.values()].reduce((a, b) => a + b, 0);
    for (const tab of this.tabs.children) {
      const share = all ? `${Math.round((100 * (sums.get(tab.dataset.key) ?? 0)) / all)}%` : "";
      setText(tab.lastChild, share);
      tab.lastChild.title = share && `${share} of the time in kernels`;
    }
    const busiest = [...sums].sort((a, b) => b[1] - a[1])[0];
    const stays = this.chosen && sums.has(this.chosen);
    if (
      !stays &&
      !this.pinned &&
      busiest &&
      this.unit &&
      busiest[0] !== this.unit.key &&
      busiest[1] > 2 * (sums.get(this.unit.key) ?? 0)
    )
      this.open(busiest[0]);
  }

  // The part of `choices` or `figures` that belongs to what is shown; null for one of another generation.
  current(message) {
    const fits = message && !this.held && this.unit && message.generation === this.built; // messages come in any order
    const found = fits ? message.units[this.unit.key] : null;
    return found?.lines && found.instructions ? found : null;
  }

  // --- linking lines and instructions

  // `wait` (ms): a pointer that only passes does not make the other side jump.
  point(select, wait = 0) {
    this.pointed = select;
    this.showLinks();
    clearTimeout(this.revealing);
    if (select) this.revealing = setTimeout(() => this.reveal(select), wait);
  }

  pin(select) {
    const same = select && this.pinned && select.kind === this.pinned.kind && select.n === this.pinned.n;
    this.pinned = same ? null : select;
    this.pointed = same ? null : select;
    this.showLinks();
    if (this.pinned) this.reveal(this.pinned);
    if (this.pinned && this.machine.open) this.askForCode(-1);
  }

  cross(select) {
    const { lines, instructions } = this.links(select);
    const [pane, target] = select.kind === "lines" ? [this.code, instructions] : [this.lines, lines];
    if (target.length) pane.focus(target[0]);
  }

  // Scroll the other pane, and nothing else, so that what is linked can be seen.
  reveal(select) {
    const { lines, instructions } = this.links(select);
    const [pane, target] = select.kind === "lines" ? [this.code, instructions] : [this.lines, lines];
    if (target.length) pane.reveal(target[0]);
  }

  links(select) {
    if (!select || !this.unit) return { lines: [], instructions: [] };
    const code = this.unit.instructions;
    if (select.kind === "instructions") return { lines: linesOf(code[select.n], this.unit), instructions: [select.n] };
    const line = this.unit.first_line + select.n;
    const all = code.map((instruction, n) => [instruction, n]).filter(([i]) => i.span);
    const begun = all.filter(([i]) => i.span[0] === line);
    const around = all.filter(([i]) => i.role !== "flow" && i.span[0] < line && line <= i.span[2]);
    return { lines: [select.n], instructions: (begun.length ? begun : around).map(([, n]) => n) };
  }

  showLinks() {
    const select = this.pointed ?? this.pinned;
    const { lines, instructions } = this.links(select);
    for (const [pane, on] of [
      [this.lines, new Set(lines)],
      [this.code, new Set(instructions)],
    ]) {
      pane.rows.forEach((row, n) => {
        setClass(row.element, "bcvm-linked", on.has(n));
        const pinned = this.pinned?.kind === pane.kind && this.pinned.n === n;
        setClass(row.element, "bcvm-pinned", pinned);
        if (row.element.getAttribute("aria-selected") !== String(pinned))
          row.element.setAttribute("aria-selected", String(pinned));
      });
    }
    this.machine.link(new Set(instructions), Boolean(this.pinned) && select === this.pinned);
    this.showSpan(select);
    this.showDetail();
  }

  // Underline the very characters that an instruction came from.
  showSpan(select) {
    for (const old of this.lines.body.querySelectorAll(".bcvm-span")) old.remove();
    const span = select?.kind === "instructions" ? this.unit.instructions[select.n].span : null;
    if (!span) return;
    for (const n of linesOf(this.unit.instructions[select.n], this.unit)) {
      const { entry, element } = this.lines.rows[n];
      const line = this.unit.first_line + n;
      const from = line === span[0] ? fromBytes(entry.text, span[1]) : entry.text.length - entry.text.trimStart().length;
      const to = line === span[2] ? fromBytes(entry.text, span[3]) : entry.text.length;
      const under = make(
        "span",
        { class: "bcvm-span", "aria-hidden": "true" },
        ...breakable(entry.text.slice(0, from)),
        make("span", {}, ...breakable(entry.text.slice(from, to))),
        ...breakable(entry.text.slice(to)),
      );
      element.querySelector(".bcvm-code > code").append(under);
    }
  }

  showDetail() {
    const select = this.pointed ?? this.pinned;
    const choices = this.model.get("choices")?.units?.[this.unit?.key]?.[select?.kind]?.[select?.n];
    const figures = this.model.get("figures")?.units?.[this.unit?.key]?.[select?.kind];
    if (!select || !choices || !figures) {
      setText(
        this.detail,
        this.unit
          ? "Point at a line or an instruction to see what belongs to it; click to hold it. Arrow keys move, Enter holds, Escape lets go."
          : "",
      );
      return;
    }
    setText(this.detail, detailText(select, this.unit, choices, figures, this.model.get("listing").glossary ?? {}));
  }
}
