// Dispatches and compiles as dots over time, with the figures of each tier beside its budget.

const KINDS = {
  lowered: { mark: "▼", name: "front end" },
  bound: { mark: "■", name: "operands of new types" },
  selected: { mark: "●", name: "tier 1, select", warm: "tier 1, warm calls", tier: "tier 1" },
  fused: { mark: "◆", name: "tier 2, fuse", warm: "tier 2, warm calls", tier: "tier 2" },
  recompiled: { mark: "★", name: "tier 3, recompile", warm: "tier 3, warm calls", tier: "tier 3" },
  python: { mark: "✕", name: "left to Python" },
};
const WARM_MARKS = { selected: "○", fused: "◇", recompiled: "☆" };
const SHAPES = {
  lowered: (x, y) => `M${x - 3.5} ${y - 2.5}h7l-3.5 6Z`,
  bound: (x, y) => `M${x - 3} ${y - 3}h6v6h-6Z`,
  selected: (x, y) => `M${x - 3} ${y}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0Z`,
  fused: (x, y) => `M${x} ${y - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5Z`,
  recompiled: (x, y) => `M${x} ${y - 5}l1.5 3.5l3.5 1.5l-3.5 1.5l-1.5 3.5l-1.5 -3.5l-3.5 -1.5l3.5 -1.5Z`,
  python: (x, y) => `M${x - 3} ${y - 3}l6 6m0 -6l-6 6`,
};
const PLOT = { height: 250, left: 62, right: 12, top: 10, bottom: 40 };
const DRAW = (tag, attributes, ...children) => {
  const out = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) out.setAttribute(name, value);
  out.append(...children);
  return out;
};
const seriesKey = (series) => `${series.kind} ${series.warm}`;
const seriesName = (series) => (series.warm && KINDS[series.kind].warm) || KINDS[series.kind].name;
const seriesMark = (series) => (series.warm && WARM_MARKS[series.kind]) || KINDS[series.kind].mark;

class LatencyView {
  constructor() {
    this.hidden = new Set(); // keys of series
    this.selected = null; // a dot, as `points` holds them
    this.points = [];
    this.window = make(
      "select",
      { "aria-label": "Time shown", onchange: () => this.draw() },
      ...[
        ["", "all of it"],
        ["60000", "the last minute"],
        ["10000", "the last 10 s"],
      ].map(([value, name]) => make("option", { value }, name)),
    );
    this.search = make("input", {
      type: "search",
      placeholder: "op, place, shape or reason",
      "aria-label": "Show dots whose text holds",
      oninput: () => this.draw(),
      onkeydown: (event) => event.stopPropagation(),
    });
    this.svg = DRAW("svg", { height: PLOT.height, width: "100%", "aria-hidden": "true" });
    this.plot = make(
      "div",
      {
        class: "bcvm-plot",
        tabindex: "0",
        role: "application",
        "aria-label":
          "Durations over time. Left and right: earlier and later dots; up and down: slower and faster ones; Escape: none.",
        onclick: (event) => this.click(event),
        onkeydown: (event) => this.key(event),
      },
      this.svg,
    );
    this.detail = make("div", { class: "bcvm-detail", role: "status", "aria-live": "polite" });
    this.body = make("tbody");
    const heads = ["series", "count", "mean", "P50", "P99", "slowest", "budget"];
    const table = make(
      "table",
      { class: "bcvm-series", "aria-label": "Latencies by tier" },
      make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))),
      this.body,
    );
    this.slowest = make("ol", { class: "bcvm-slowest" });
    this.notice = make("p", { class: "bcvm-notice", role: "note" });
    this.full = make(
      "div",
      {},
      make("div", { class: "bcvm-controls" }, make("label", {}, "show ", this.window), make("label", {}, "filter ", this.search)),
      this.plot,
      this.detail,
      make("div", { class: "bcvm-columns" }, table, make("div", {}, make("h4", {}, "slowest"), this.slowest)),
    );
    this.element = make("div", { class: "bcvm-latencies" }, this.notice, this.full);
    this.resized = new ResizeObserver(() => this.width !== this.plot.clientWidth && this.draw());
    this.resized.observe(this.plot);
  }

  close() {
    this.resized.disconnect();
  }

  show(message) {
    this.message = message;
    if (!this.element.hidden) this.draw();
  }

  draw() {
    const message = this.message;
    const some = Boolean(message?.series.length);
    this.full.hidden = !some;
    this.notice.hidden = some;
    setText(
      this.notice,
      "Dispatches and compiles appear here from the moment a dashboard is open: run a cell with tensor work while it is.",
    );
    if (!some || !this.plot.clientWidth) return;
    const shown = this.visible(message);
    this.drawPlot(message, shown);
    this.drawTable(message);
    this.drawSlowest(shown.dots);
    this.showDetail();
  }

  // --- the dots

  visible(message) {
    const { series, at_ms, us, text } = message.dots;
    const end = Math.max(...at_ms);
    const start = this.window.value ? end - Number(this.window.value) : 0;
    const wanted = this.search.value.trim().toLowerCase();
    const fits = message.texts.map((parts) => !wanted || parts.join(" ").toLowerCase().includes(wanted));
    const shown = message.series.map((each) => !this.hidden.has(seriesKey(each)));
    const dots = [];
    for (let n = 0; n < at_ms.length; n++)
      if (shown[series[n]] && fits[text[n]] && at_ms[n] >= start)
        dots.push({ series: message.series[series[n]], at: at_ms[n], us: us[n], text: message.texts[text[n]] });
    return { dots: dots.sort((a, b) => a.at - b.at), start: Math.max(0, start), end: Math.max(end, start + 1) };
  }

  drawPlot(message, { dots, start, end }) {
    this.width = this.plot.clientWidth;
    const logs = dots.filter((dot) => dot.us > 0).map((dot) => Math.log10(dot.us));
    const low = Math.max(-2, Math.floor(Math.min(0, ...logs)));
    const high = Math.max(4, Math.ceil(Math.max(0, ...logs) + 0.01));
    const [bottom, right] = [PLOT.height - PLOT.bottom, this.width - PLOT.right];
    const y = (us) => PLOT.top + ((bottom - PLOT.top) * (high - Math.log10(us))) / (high - low);
    const x = (at) => PLOT.left + 8 + ((right - PLOT.left - 16) * (at - start)) / (end - start);
    const parts = [];
    for (let power = low; power <= high; power++) {
      parts.push(DRAW("path", { d: `M${PLOT.left} ${y(10 ** power)}H${right}`, class: "bcvm-grid" }));
      parts.push(DRAW("text", { x: PLOT.left - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, duration(10 ** power)));
    }
    for (const [at, anchor] of [
      [start, "start"],
      [end, "end"],
    ])
      parts.push(DRAW("text", { x: x(at), y: PLOT.height - 6, "text-anchor": anchor }, at ? clock(1000 * at) : "0 s"));
    parts.push(DRAW("text", { x: PLOT.left - 6, y: bottom + 16, "text-anchor": "end" }, "untimed"));
    parts.push(...this.budgets(message, y, right, 10 ** high));
    const paths = new Map();
    this.points = dots.map((dot) => ({ ...dot, x: x(dot.at), y: dot.us > 0 ? y(Math.max(10 ** low, dot.us)) : bottom + 12 }));
    for (const dot of this.points) {
      const key = seriesKey(dot.series);
      paths.set(key, `${paths.get(key) ?? ""}${SHAPES[dot.series.kind](dot.x.toFixed(1) * 1, dot.y.toFixed(1) * 1)}`);
    }
    for (const each of message.series) {
      const d = paths.get(seriesKey(each));
      if (d) parts.push(DRAW("path", { d, class: `bcvm-dots bcvm-dots-${each.kind}${each.warm ? " bcvm-warm" : ""}` }));
    }
    this.ring = DRAW("circle", { r: 8, class: "bcvm-ring" });
    this.svg.replaceChildren(...parts, this.ring);
    this.again();
  }

  budgets(message, y, right, top) {
    const lines = [];
    for (const each of message.series) {
      if (this.hidden.has(seriesKey(each))) continue;
      for (const [name, us] of [
        ["mean", each.budget_mean_us],
        ["P99", each.budget_p99_us],
      ]) {
        if (us === null || us > top) continue;
        lines.push(DRAW("path", { d: `M${PLOT.left} ${y(us)}H${right}`, class: `bcvm-budget bcvm-dots-${each.kind}` }));
        const label = `budget of ${KINDS[each.kind].tier}: ${name} ${inMs(us)}`;
        lines.push(DRAW("text", { x: right - 4, y: y(us) + (name === "mean" ? 11 : -3), "text-anchor": "end", class: "bcvm-budget-name" }, label));
      }
    }
    return lines;
  }

  // --- the dot that is looked at

  same = (a, b) => a.at === b.at && a.us === b.us && seriesKey(a.series) === seriesKey(b.series) && a.text.join() === b.text.join();

  again() {
    const found = this.selected && this.points.find((point) => this.same(point, this.selected));
    this.ring.style.display = found ? "" : "none";
    if (!found) return;
    this.ring.setAttribute("cx", found.x);
    this.ring.setAttribute("cy", found.y);
  }

  select(dot) {
    this.selected = dot;
    this.again();
    this.showDetail();
  }

  showDetail() {
    const dot = this.selected;
    if (!dot) {
      setText(this.detail, "Click a dot, or use the arrow keys in the plot, to see the call, its shapes and the reason.");
      return;
    }
    const [call, shapes, reason] = dot.text;
    const took = dot.us === null ? "no duration" : duration(dot.us);
    setText(
      this.detail,
      [`${seriesName(dot.series)}, ${took}, at ${clock(1000 * dot.at)}`, call, shapes && `shapes ${shapes}`, reason]
        .filter(Boolean)
        .join("  ·  "),
    );
  }

  click(event) {
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const far = (point) => (point.x - x) ** 2 + (point.y - y) ** 2;
    const nearest = this.points.reduce((best, point) => (!best || far(point) < far(best) ? point : best), null);
    this.select(nearest && far(nearest) < 20 ** 2 ? nearest : null);
  }

  key(event) {
    const steps = { ArrowRight: [1, "at"], ArrowLeft: [-1, "at"], ArrowUp: [1, "us"], ArrowDown: [-1, "us"] };
    const step = steps[event.key];
    if (event.key === "Escape") this.select(null);
    else if (step && this.points.length) {
      const order = [...this.points].sort((a, b) => (a[step[1]] ?? 0) - (b[step[1]] ?? 0));
      const at = this.selected ? order.findIndex((point) => this.same(point, this.selected)) : -1;
      const from = at < 0 ? (step[1] === "us" || step[0] < 0 ? order.length - step[0] - (step[0] < 0 ? 1 : 0) : -1) : at;
      this.select(order[Math.max(0, Math.min(order.length - 1, from + step[0]))]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  // --- the figures

  drawTable(message) {
    const known = message.series.map(seriesKey).join();
    if (known !== this.known) {
      this.known = known;
      this.rows = message.series.map((series) => this.row(series));
      this.body.replaceChildren(...this.rows.map((row) => row.element));
    }
    message.series.forEach((series, n) => {
      const cells = [count(series.count), ...["mean_us", "p50_us", "p99_us", "worst_us"].map((name) => duration(series[name]))];
      cells.forEach((text, k) => setText(this.rows[n].cells[k], text));
      showVerdict(this.rows[n].cells[5], series);
    });
  }

  row(series) {
    const key = seriesKey(series);
    const box = make("input", {
      type: "checkbox",
      "aria-label": `Show ${seriesName(series)}`,
      onchange: () => {
        this.hidden[box.checked ? "delete" : "add"](key);
        this.draw();
      },
    });
    box.checked = !this.hidden.has(key);
    const mark = make("span", { class: `bcvm-mark bcvm-dots-${series.kind}`, "aria-hidden": "true" }, seriesMark(series));
    const cells = ["", "", "", "", "", ""].map((_, n) => make("td", { class: n < 5 ? "bcvm-right" : "" }));
    const about = series.warm ? "single calls, sampled; the kernel's own work is part of them" : "what was done for the first time";
    const name = make("td", { title: about }, make("label", {}, box, mark, ` ${seriesName(series)}`));
    return { element: make("tr", {}, name, ...cells), cells };
  }

  drawSlowest(dots) {
    const slow = dots.filter((dot) => dot.us > 0).sort((a, b) => b.us - a.us).slice(0, 5);
    const key = JSON.stringify(slow);
    if (key === this.slow) return;
    this.slow = key;
    const focused = [...this.slowest.children].findIndex((item) => item.contains(document.activeElement));
    this.slowest.replaceChildren(
      ...slow.map((dot) => {
        const words = `${duration(dot.us)} ${seriesMark(dot.series)} ${dot.text[0]}`;
        return make("li", {}, make("button", { type: "button", onclick: () => this.select(dot) }, words));
      }),
    );
    if (focused >= 0) this.slowest.children[Math.min(focused, slow.length - 1)]?.firstChild.focus();
  }
}

// Beside each budget whether it is kept; only what is over one is in the colour of faults.
function showVerdict(cell, series) {
  const parts = [
    ["mean", series.mean_us, series.budget_mean_us],
    ["P99", series.p99_us, series.budget_p99_us],
  ]
    .filter(([, value, budget]) => value !== null && budget !== null)
    .map(([name, value, budget]) => ({ over: value > budget, words: `${value > budget ? "✗ over" : "✓"} ${name} ${inMs(budget)}` }));
  if (cell.textContent === parts.map((part) => part.words).join(", ")) return;
  const shown = parts.map((part) => make("span", { class: part.over ? "bcvm-over" : "" }, part.words));
  cell.replaceChildren(...shown.flatMap((part, n) => (n ? [", ", part] : [part])));
}
