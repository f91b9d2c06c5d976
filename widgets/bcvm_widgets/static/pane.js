// A list of rows with figures, and the curve of ops per second.

// --- one pane: a list of rows with figures

class Pane {
  // `columns`: names and explanations of the columns; `kind`: "lines" or "instructions", as in the protocol.
  constructor(kind, title, first, view) {
    this.kind = kind;
    this.view = view;
    this.rows = [];
    const heads = [
      [first, ""],
      ["", "who runs it"],
      [title, ""],
      ...(kind === "instructions" ? [["kernel", "the kernel that runs it, or Python"]] : []),
      ["runs", "executions by the VM"],
      ["total", "time in kernels"],
      ["last", "time of the latest run"],
    ];
    const right = new Set([first, "runs", "total", "last"]);
    const named = { runs: " bcvm-runs", last: " bcvm-last", kernel: "bcvm-by" };
    const cells = heads.map(([name, about]) =>
      make(
        "th",
        { scope: "col", class: (right.has(name) ? "bcvm-right" : "") + (named[name] ?? ""), title: about || null },
        name || make("span", { class: "bcvm-unseen" }, about),
      ),
    );
    this.body = make("tbody");
    this.body.addEventListener("keydown", (event) => this.key(event));
    const table = make(
      "table",
      { role: "grid", "aria-readonly": "true", "aria-label": title },
      make("thead", {}, make("tr", {}, ...cells)),
      this.body,
    );
    this.element = make("div", { class: `bcvm-pane bcvm-${kind}` }, table);
  }

  fill(entries) {
    this.rows = entries.map((entry, n) => this.row(entry, n));
    this.body.replaceChildren(...this.rows.map((row) => row.element));
    if (this.rows.length) this.rows[0].element.tabIndex = 0;
  }

  row(entry, n) {
    const mark = make("span", { class: "bcvm-mark" });
    const who = make("td", { class: "bcvm-by" });
    const runs = make("td", { class: "bcvm-right bcvm-runs" });
    const total = make("span", { class: "bcvm-figure" });
    const bar = make("span", { class: "bcvm-bar", "aria-hidden": "true" });
    const last = make("td", { class: "bcvm-right bcvm-last" });
    const element = make(
      "tr",
      { tabindex: "-1", "aria-selected": "false", class: entry.class ?? "" },
      make("td", { class: "bcvm-number" }, entry.number),
      make("td", { class: "bcvm-tier" }, mark),
      make("td", { class: "bcvm-code" }, entry.code),
      ...(this.kind === "instructions" ? [who] : []),
      runs,
      make("td", { class: "bcvm-right bcvm-total" }, bar, total),
      last,
    );
    const select = { kind: this.kind, n };
    element.addEventListener("mouseenter", () => this.view.point(select, 150));
    element.addEventListener("mouseleave", () => this.view.point(null));
    element.addEventListener("focus", () => this.view.point(select, 0));
    element.addEventListener("click", () => this.view.pin(select));
    return { entry, element, mark, who, runs, total, bar, last };
  }

  choose(choices) {
    this.rows.forEach((row, n) => {
      const choice = choices[n];
      const tier = TIERS[choice.tier] ?? TIERS[""];
      setText(row.mark, tier.mark);
      setText(row.who, choice.kernels.map((name) => shortName(name, row.entry.op)).join(", ") || tier.word);
      row.element.dataset.tier = choice.tier;
      row.first = choice.first === null ? undefined : this.rows[choice.first]?.entry.number;
      const about = [choice.kernels.join(", "), tier.about, choice.reason && `last handed back: ${choice.reason}`]
        .filter(Boolean)
        .join("; ");
      if (row.mark.title === about) return;
      row.mark.title = row.who.title = about;
      setNamed(row.mark, tier.word);
    });
  }

  figure(columns, whole) {
    this.columns = columns;
    this.rows.forEach((row, n) => {
      const runs = columns.runs[n];
      const text = count(runs);
      setClass(row.element, "bcvm-moved", row.runs.textContent !== text && row.known === true);
      row.known = true;
      setText(row.runs, text);
      const elsewhere = !columns.timed[n] && runs && row.first !== undefined;
      setText(row.total, elsewhere ? `in ${row.first}` : duration(columns.total_us[n]));
      setClass(row.total, "bcvm-elsewhere", Boolean(elsewhere));
      const about = elsewhere ? `part of the kernel that begins at ${row.first}, where its time stands` : "";
      if (row.total.title !== about) row.total.title = about;
      setText(row.last, duration(columns.last_us[n]));
      row.bar.style.width = whole > 0 && columns.total_us[n] ? `${(100 * columns.total_us[n]) / whole}%` : "0";
    });
  }

  // Scroll so that a row can be seen.
  reveal(n) {
    const row = this.rows[n]?.element;
    if (!row) return;
    const [top, bottom] = [this.element.scrollTop, this.element.scrollTop + this.element.clientHeight - row.offsetHeight];
    if (row.offsetTop < top + 30 || row.offsetTop > bottom) this.element.scrollTop = row.offsetTop - 60;
  }

  rest() {
    for (const row of this.rows) setClass(row.element, "bcvm-moved", false);
  }

  focus(n) {
    const row = this.rows[Math.max(0, Math.min(n, this.rows.length - 1))];
    if (!row) return;
    for (const other of this.rows) other.element.tabIndex = other === row ? 0 : -1;
    row.element.focus();
  }

  key(event) {
    const n = this.rows.findIndex((row) => row.element === event.target);
    if (n < 0) return;
    const step = { ArrowDown: n + 1, ArrowUp: n - 1, Home: 0, End: this.rows.length - 1 }[event.key];
    if (step !== undefined) this.focus(step);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.view.cross({ kind: this.kind, n });
    else if (event.key === "Enter" || event.key === " ") this.view.pin({ kind: this.kind, n });
    else if (event.key === "Escape") this.view.pin(null);
    else return;
    event.preventDefault();
    event.stopPropagation(); // else the notebook takes it for one of its own shortcuts
  }
}

// --- the ops per second of the last seconds

class Pulse {
  constructor() {
    this.points = [];
    const svg = (tag, attributes) => {
      const out = document.createElementNS("http://www.w3.org/2000/svg", tag);
      for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
      return out;
    };
    this.line = svg("polyline", { fill: "none", "stroke-width": "1.5", "stroke-linejoin": "round" });
    const drawing = svg("svg", { viewBox: "0 0 96 20", width: "96", height: "20", preserveAspectRatio: "none" });
    drawing.append(this.line);
    this.text = make("span", { class: "bcvm-rate" });
    this.element = make("span", { class: "bcvm-pulse", "aria-hidden": "true", title: "ops per second" }, drawing, this.text);
    this.before = null;
  }

  add(total, now) {
    if (this.before !== null && now - this.before.now < 50) return; // the same picture once more, or too short to tell
    if (this.before !== null && total >= this.before.total) {
      const step = (1000 * (total - this.before.total)) / (now - this.before.now);
      const rate = this.points.length ? 0.6 * this.points.at(-1) + 0.4 * step : step;
      this.points = [...this.points.slice(-59), rate];
      const top = Math.max(...this.points, 1);
      this.line.setAttribute("points", this.points.map((y, x) => `${(96 * x) / 59},${19 - (18 * y) / top}`).join(" "));
      setText(this.text, `${rate >= 1000 ? `${(rate / 1000).toFixed(1)}k` : Math.round(rate)} ops/s`);
    }
    this.before = { total, now };
  }

  restart() {
    this.points = [];
    this.before = null;
    this.line.setAttribute("points", "");
    setText(this.text, "");
  }
}
