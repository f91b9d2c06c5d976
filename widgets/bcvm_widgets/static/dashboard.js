// The view of a BCVM dashboard. What the traits and commands hold is described in protocol.py; VERSION is checked before anything is read.
// One plain ES module: nothing is fetched, nothing is built.

const VERSION = 1;
const TIERS = {
  "": { mark: "", word: "", about: "" },
  waiting: { mark: "○", word: "not run yet", about: "has not run yet" },
  selected: { mark: "●", word: "kernel", about: "tier 1: a ready kernel, selected by signature and shape" },
  fused: { mark: "◆", word: "fused", about: "tier 2: part of a fused kernel" },
  recompiled: { mark: "★", word: "recompiled", about: "tier 3: part of a kernel recompiled because it was hot" },
  host: { mark: "◇", word: "Python", about: "left to Python" },
  mixed: { mark: "◐", word: "kernels and Python", about: "part runs by kernels, part in Python" },
};

// --- small helpers ---------------------------------------------------------------------------------------------------------

function make(tag, attributes = {}, ...children) {
  const out = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") out.className = value;
    else if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) out.setAttribute(name, value);
  }
  out.append(...children);
  return out;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setClass(node, name, on) {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}

function duration(us) {
  if (us === null || us === undefined) return "";
  for (const [unit, size] of [["s", 1e6], ["ms", 1e3]]) if (us >= 0.9995 * size) return `${digits(us / size)} ${unit}`;
  return `${digits(us)} µs`;
}

const digits = (x) => (x >= 999.5 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(3))));
const count = (n) => (n ? n.toLocaleString("en") : "");
const clock = (us) => (us < 1e6 ? duration(us) : `${(us / 1e6).toFixed(1)} s`);

// Columns of `ast` count UTF-8 bytes, strings here count UTF-16 units.
function fromBytes(text, bytes) {
  const encoder = new TextEncoder();
  let at = 0;
  for (const char of text) {
    if (bytes <= 0) break;
    bytes -= encoder.encode(char).length;
    at += char.length;
  }
  return at;
}

const TOKENS =
  /(#.*$)|([rbfuRBFU]{0,2}(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'))|\b(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|None|True|False)\b|(\b\d[\w.]*)/g;

function highlighted(text) {
  const out = document.createDocumentFragment();
  let done = 0;
  for (const found of text.matchAll(TOKENS)) {
    out.append(text.slice(done, found.index));
    const kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "keyword" : "literal";
    out.append(make("span", { class: `bcvm-${kind}` }, found[0]));
    done = found.index + found[0].length;
  }
  out.append(text.slice(done));
  return out;
}

// Beside the op's own name, its kernel needs only the rest: "exp.template.float32" is "template.float32".
const shortName = (kernel, op) => (op && kernel.startsWith(`${op}.`) ? kernel.slice(op.length + 1) : kernel);

// --- one pane: a list of rows with figures -------------------------------------------------------------------------------------

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
    const cells = heads.map(([name, about]) =>
      make("th", { scope: "col", class: right.has(name) ? "bcvm-right" : "", title: about || null, "aria-label": name ? null : about }, name),
    );
    this.body = make("tbody");
    this.body.addEventListener("keydown", (event) => this.key(event));
    const table = make("table", { role: "grid", "aria-readonly": "true", "aria-label": title }, make("thead", {}, make("tr", {}, ...cells)), this.body);
    this.element = make("div", { class: `bcvm-pane bcvm-${kind}` }, table);
  }

  fill(entries) {
    this.rows = entries.map((entry, n) => this.row(entry, n));
    this.body.replaceChildren(...this.rows.map((row) => row.element));
    if (this.rows.length) this.rows[0].element.tabIndex = 0;
  }

  row(entry, n) {
    const mark = make("span", { class: "bcvm-mark", role: "img" });
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
    element.addEventListener("mouseenter", () => this.view.point(select));
    element.addEventListener("mouseleave", () => this.view.point(null));
    element.addEventListener("focus", () => this.view.point(select));
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
      const about = [choice.kernels.join(", "), tier.about, choice.reason && `last handed back: ${choice.reason}`].filter(Boolean).join("; ");
      if (row.mark.title === about) return;
      row.mark.title = row.who.title = about;
      row.mark.setAttribute("aria-label", tier.word);
      row.mark.setAttribute("aria-hidden", String(!tier.word));
    });
  }

  figure(columns, whole) {
    this.rows.forEach((row, n) => {
      const runs = columns.runs[n];
      const text = count(runs);
      setClass(row.element, "bcvm-moved", row.runs.textContent !== text && row.known === true);
      row.known = true;
      setText(row.runs, text);
      setText(row.total, duration(columns.total_us[n]));
      setText(row.last, duration(columns.last_us[n]));
      row.bar.style.width = whole > 0 && columns.total_us[n] ? `${(100 * columns.total_us[n]) / whole}%` : "0";
    });
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

// --- the ops per second of the last seconds ---------------------------------------------------------------------------------------

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

// --- the view ------------------------------------------------------------------------------------------------------------------------

class View {
  constructor(model, element) {
    this.model = model;
    this.id = crypto.randomUUID?.() ?? String(Math.random());
    this.chosen = null; // the unit the user chose, by key
    this.unit = null;
    this.pointed = this.pinned = null;
    this.held = false; // paused here, whether or not the kernel has heard of it
    this.started = null;
    this.build(element);
    this.handlers = { "change:listing": () => this.showAll(), "change:choices": () => this.showChoices(), "change:figures": () => this.showFigures(), "change:status": () => this.showStatus() };
    for (const [name, handler] of Object.entries(this.handlers)) model.on(name, handler);
    this.onHide = () => this.send("hidden");
    this.onShow = (event) => event.persisted && this.send("shown");
    window.addEventListener("pagehide", this.onHide);
    window.addEventListener("pageshow", this.onShow);
    this.showStatus();
    this.showAll();
    this.send("shown");
  }

  close() {
    for (const [name, handler] of Object.entries(this.handlers)) this.model.off(name, handler);
    window.removeEventListener("pagehide", this.onHide);
    window.removeEventListener("pageshow", this.onShow);
    clearInterval(this.timer);
    clearTimeout(this.calm);
    this.send("hidden");
  }

  send(command) {
    try {
      this.model.send({ version: VERSION, command, view: this.id });
    } catch {
      // no kernel behind a saved notebook
    }
  }

  build(element) {
    this.state = make("span", { class: "bcvm-state", role: "status" });
    this.time = make("span", { class: "bcvm-time", "aria-hidden": "true" });
    this.pulse = new Pulse();
    this.totals = make("span", { class: "bcvm-totals" });
    this.pause = make("button", { type: "button", class: "bcvm-button", onclick: () => this.hold(!this.held) });
    this.stop = make("button", { type: "button", class: "bcvm-button bcvm-stop", title: "Interrupt the running cell", onclick: () => this.interrupt() });
    this.tabs = make("div", { class: "bcvm-tabs", role: "tablist", "aria-label": "Cell and functions", onkeydown: (event) => this.tabKey(event) });
    this.lines = new Pane("lines", "source", "line", this);
    this.code = new Pane("instructions", "bytecode", "pc", this);
    this.panes = make("div", { class: "bcvm-panes", role: "tabpanel" }, this.lines.element, this.code.element);
    this.detail = make("div", { class: "bcvm-detail" });
    this.notice = make("p", { class: "bcvm-notice", role: "note" });
    const bar = make("header", { class: "bcvm-head" }, make("strong", { class: "bcvm-name" }, "BCVM"), this.state, this.time, this.pulse.element, this.totals, this.pause, this.stop);
    this.root = make("section", { class: "bcvm-dashboard", "aria-label": "BCVM dashboard" }, bar, this.notice, this.tabs, this.panes, this.detail);
    element.append(this.root);
  }

  // A message that this view can read, or null.
  read(name) {
    const value = this.model.get(name);
    const fits = value?.version === VERSION;
    if (!fits) this.say(`This view reads version ${VERSION} of the messages, the kernel sends version ${value?.version}. Reload the page.`);
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
    if (status.running) {
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
    const units = listing.units;
    this.say(units.length ? "" : "Run a cell with tensor work: its lines and the instructions they become appear here, while it runs.");
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
        const tab = make("button", { type: "button", role: "tab", "aria-selected": String(on), tabindex: on ? "0" : "-1", onclick: () => this.choose(unit.key) }, name, share);
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
    const tabs = [...this.tabs.children];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    this.choose(tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length].dataset.key);
    event.preventDefault();
    event.stopPropagation();
  }

  showUnit(unit) {
    const same = unit && this.unit && JSON.stringify(unit) === JSON.stringify(this.unit);
    if (!same) {
      this.unit = unit;
      this.pointed = this.pinned = null;
      this.lines.fill((unit?.lines ?? []).map((text, n) => ({ number: String(unit.first_line + n), code: sourceCell(text), text })));
      let inside = false; // of a region that may be fused
      const entries = (unit?.instructions ?? []).map((instruction) => {
        inside ||= /^FUSE_(START|ACROSS)/.test(instruction.opcode);
        const entry = instructionEntry(instruction, inside);
        inside &&= instruction.opcode !== "FUSE_END";
        return entry;
      });
      this.code.fill(entries);
    }
    this.showChoices();
    this.showFigures();
  }

  showChoices() {
    const choices = this.read("choices");
    const found = this.current(choices);
    if (!found) return;
    this.lines.choose(found.lines);
    this.code.choose(found.instructions);
    this.showDetail();
  }

  showFigures() {
    const figures = this.read("figures");
    const found = this.current(figures);
    if (!found) return;
    const sum = (columns) => columns.total_us.reduce((all, us) => all + (us ?? 0), 0);
    const own = sum(found.lines);
    this.lines.figure(found.lines, own);
    this.code.figure(found.instructions, own);
    clearTimeout(this.calm);
    this.calm = setTimeout(() => [this.lines, this.code].forEach((pane) => pane.rest()), 400);
    const ops = figures.call_op + figures.call_host;
    const share = ops ? ` · ${((100 * figures.call_op) / ops).toFixed(figures.call_host ? 1 : 0)}% by CALL_OP` : "";
    setText(this.totals, ops ? `${count(ops)} ops${share}${figures.kernels_us ? ` · ${duration(figures.kernels_us)} in kernels` : ""}` : "");
    if (this.running) this.pulse.add(ops, performance.now());
    this.showShares(figures);
    this.showDetail();
  }

  // The tabs say how the time divides; unless the user chose one, the busiest is open.
  showShares(figures) {
    const sums = new Map(Object.entries(figures.units).map(([key, unit]) => [key, unit.lines.total_us.reduce((all, us) => all + (us ?? 0), 0)]));
    const all = [...sums.values()].reduce((a, b) => a + b, 0);
    for (const tab of this.tabs.children) {
      const share = all ? `${Math.round((100 * (sums.get(tab.dataset.key) ?? 0)) / all)}%` : "";
      setText(tab.lastChild, share);
      tab.lastChild.title = share && `${share} of the time in kernels`;
    }
    const busiest = [...sums].sort((a, b) => b[1] - a[1])[0];
    const stays = this.chosen && sums.has(this.chosen);
    if (!stays && !this.pinned && busiest && this.unit && busiest[0] !== this.unit.key && busiest[1] > 2 * (sums.get(this.unit.key) ?? 0)) this.open(busiest[0]);
  }

  // The part of `choices` or `figures` that belongs to what is shown; null for one of another generation.
  current(message) {
    const fits = message && !this.held && this.unit && message.generation === this.model.get("listing").generation;
    const found = fits ? message.units[this.unit.key] : null;
    return found?.lines && found.instructions ? found : null;
  }

  // --- linking lines and instructions

  point(select) {
    this.pointed = select;
    this.showLinks();
  }

  pin(select) {
    const same = select && this.pinned && select.kind === this.pinned.kind && select.n === this.pinned.n;
    this.pinned = same ? null : select;
    this.pointed = same ? null : select;
    this.showLinks();
    if (this.pinned) this.reveal();
  }

  cross(select) {
    const { lines, instructions } = this.links(select);
    const [pane, target] = select.kind === "lines" ? [this.code, instructions] : [this.lines, lines];
    if (target.length) pane.focus(target[0]);
  }

  // Scroll the other pane, and nothing else, so that what is linked can be seen.
  reveal() {
    const { lines, instructions } = this.links(this.pinned);
    const [pane, target] = this.pinned.kind === "lines" ? [this.code, instructions] : [this.lines, lines];
    const row = pane.rows[target[0]]?.element;
    if (!row) return;
    const [top, bottom] = [pane.element.scrollTop, pane.element.scrollTop + pane.element.clientHeight - row.offsetHeight];
    if (row.offsetTop < top + 30 || row.offsetTop > bottom) pane.element.scrollTop = row.offsetTop - 60;
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
    for (const [pane, on] of [[this.lines, new Set(lines)], [this.code, new Set(instructions)]]) {
      pane.rows.forEach((row, n) => {
        setClass(row.element, "bcvm-linked", on.has(n));
        const pinned = this.pinned?.kind === pane.kind && this.pinned.n === n;
        setClass(row.element, "bcvm-pinned", pinned);
        if (row.element.getAttribute("aria-selected") !== String(pinned)) row.element.setAttribute("aria-selected", String(pinned));
      });
    }
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
      const under = make("span", { class: "bcvm-span", "aria-hidden": "true" }, entry.text.slice(0, from), make("span", {}, entry.text.slice(from, to)));
      element.querySelector(".bcvm-code > code").append(under);
    }
  }

  showDetail() {
    const select = this.pointed ?? this.pinned;
    const choices = this.model.get("choices")?.units?.[this.unit?.key]?.[select?.kind]?.[select?.n];
    const figures = this.model.get("figures")?.units?.[this.unit?.key]?.[select?.kind];
    if (!select || !choices || !figures) {
      setText(this.detail, this.unit ? "Point at a line or an instruction to see what belongs to it; click to hold it. Arrow keys move, Enter holds, Escape lets go." : "");
      return;
    }
    setText(this.detail, detailText(select, this.unit, choices, figures));
  }
}

function linesOf(instruction, unit) {
  if (!instruction.span) return [];
  const [first, , last] = instruction.span;
  const end = instruction.role === "flow" && /LOOP|JUMP|ITER/.test(instruction.opcode) ? first : last;
  const out = [];
  for (let line = Math.max(first, unit.first_line); line <= Math.min(end, unit.first_line + unit.lines.length - 1); line++) out.push(line - unit.first_line);
  return out;
}

const sourceCell = (text) => make("code", { style: `--depth: ${text.length - text.trimStart().length + 4}ch` }, highlighted(text));

function instructionEntry(instruction, inside) {
  const depth = instruction.part ? instruction.part.split(".").length : 0;
  const code = make("code", { style: `--depth: ${2 * depth}ch` });
  if (instruction.label) code.append(make("span", { class: "bcvm-label" }, `${instruction.label}: `));
  code.append(make("span", { class: "bcvm-opcode" }, instruction.opcode), ` ${instruction.operands}`);
  if (instruction.notes.length) code.append(make("span", { class: "bcvm-comment" }, `  ; ${instruction.notes.join(", ")}`));
  return { number: String(instruction.pc), code, class: `bcvm-role-${instruction.role}${inside ? " bcvm-region" : ""}`, op: instruction.op };
}

function detailText(select, unit, choice, figures) {
  const name = select.kind === "lines" ? `line ${unit.first_line + select.n}` : `${unit.instructions[select.n].opcode} ${unit.instructions[select.n].operands}`;
  const [runs, timed, total, last] = ["runs", "timed", "total_us", "last_us"].map((column) => figures[column][select.n]);
  const parts = [name, [choice.kernels.join(", "), TIERS[choice.tier]?.about].filter(Boolean).join(", "), choice.signature];
  if (runs) parts.push(`${count(runs)} runs`);
  if (timed) parts.push(`mean ${duration(total / timed)}, last ${duration(last)}, total ${duration(total)}${timed < runs ? ` (measured in ${count(timed)})` : ""}`);
  if (choice.reason) parts.push(`last handed back: ${choice.reason}`);
  return parts.filter(Boolean).join("  ·  ");
}

export default {
  render({ model, el }) {
    const view = new View(model, el);
    return () => view.close();
  },
};
