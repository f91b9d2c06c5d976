// The memory for code as a map, and what other limits of the cache would have meant.

const MAP = { columns: 32, cell: 13, gap: 2 };

const shareText = (part, whole) => (whole ? `${Number(((100 * part) / whole).toFixed(1))}%` : "");
const kernelsText = (n) => `${n.toLocaleString("en")} kernel${n === 1 ? "" : "s"}`;

const hitsText = (n) => `${n.toLocaleString("en")} hit${n === 1 ? "" : "s"}`;

function byteText(bytes) {
  for (const [unit, one] of [
    ["MiB", 2 ** 20],
    ["KiB", 2 ** 10],
  ])
    if (bytes >= one) return `${digits(bytes / one)} ${unit}`;
  return `${bytes.toLocaleString("en")} B`;
}

function spanText(seconds) {
  if (seconds < 0.05) return "now";
  for (const [unit, one] of [
    ["d", 86_400],
    ["h", 3600],
    ["min", 60],
  ])
    if (seconds >= 2 * one) return `${Math.round(seconds / one)} ${unit}`;
  return seconds < 10 ? `${seconds.toFixed(1)} s` : `${Math.round(seconds)} s`;
}

function memoryText(memory) {
  const gaps = memory.gaps === 1 ? "1 gap" : `${memory.gaps.toLocaleString("en")} gaps`;
  const largest = memory.gaps > 1 ? `, the largest ${byteText(memory.largest_bytes)}` : "";
  const free = memory.gaps ? `${byteText(memory.free_bytes)} free in ${gaps}${largest}` : "no gaps";
  return `${byteText(memory.used_bytes)} in use, ${free}; ${byteText(memory.unused_bytes)} never used`;
}

// A box for so many bytes, filled from below by what is in use of them; those that hold code of `row` have a frame.
class CodeMap {
  constructor() {
    this.drawing = make("div", { class: "bcvm-map" });
    this.text = make("p", { class: "bcvm-source" });
    this.key = make("p", { class: "bcvm-source" });
    this.element = make("div", {}, make("h4", {}, "memory for code"), this.drawing, this.text, this.key);
  }

  show(memory, row) {
    const state = JSON.stringify([memory, row?.cells]);
    if (state === this.drawn) return;
    this.drawn = state;
    this.drawing.hidden = this.key.hidden = !memory?.cells.length;
    setText(this.text, memory ? `${memoryText(memory)}. Fragmentation ${Math.round(100 * memory.fragmentation)}%.` : "No code has been made yet.");
    if (!memory?.cells.length) return;
    const box = MAP.cell - MAP.gap;
    const at = (n) => [1 + MAP.cell * (n % MAP.columns), 1 + MAP.cell * Math.floor(n / MAP.columns)];
    const [frames, fills] = [[], []];
    memory.cells.forEach((percent, n) => {
      const [x, y] = at(n);
      const high = percent ? Math.max(1, (box * percent) / 100) : 0;
      frames.push(`M${x} ${y}h${box}v${box}h${-box}Z`);
      if (high) fills.push(`M${x} ${(y + box - high).toFixed(1)}h${box}V${y + box}h${-box}Z`);
    });
    const chosen = new Set((row?.cells ?? []).flatMap(([first, last]) => Array.from({ length: last - first + 1 }, (_, k) => first + k)));
    const rings = [...chosen].filter((n) => n < memory.cells.length).map((n) => {
      const [x, y] = at(n);
      return `M${x - 1} ${y - 1}h${box + 2}v${box + 2}h${-box - 2}Z`;
    });
    const height = MAP.cell * Math.ceil(memory.cells.length / MAP.columns) + 1;
    const parts = [
      DRAW("path", { d: frames.join(""), class: "bcvm-cell" }),
      DRAW("path", { d: fills.join(""), class: "bcvm-cell-used" }),
      DRAW("path", { d: rings.join(""), class: "bcvm-cell-chosen" }),
    ];
    const about = `Map of the memory for code: ${memoryText(memory)}`;
    const width = MAP.cell * MAP.columns + 1;
    this.drawing.replaceChildren(DRAW("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", "aria-label": about }, ...parts));
    const ring = chosen.size ? "; framed: the chosen kernel" : "";
    setText(this.key, `Each box is ${byteText(memory.cell_bytes)}, filled as far as it is in use${ring}.`);
  }
}

// Limits to try, and the recorded calls that would have found their code.
class WhatIf {
  // `ask({size, ttl_s})` sends the question.
  constructor(ask) {
    this.ask = ask;
    this.answer = null;
    this.asked = null; // when, while there is no answer yet
    const change = (from, to) => () => {
      if (!from.value) return;
      to.value = from.value;
      this.touched = true;
      this.question();
    };
    const quiet = (event) => event.stopPropagation();
    this.size = make("input", { type: "number", min: "1", step: "1", "aria-label": "max_size, kernels", onkeydown: quiet });
    this.slider = make("input", { type: "range", min: "1", max: "200", "aria-label": "max_size, kernels, as a slider", onkeydown: quiet });
    this.ttl = make("input", { type: "number", min: "0", step: "any", "aria-label": "ttl, seconds", onkeydown: quiet });
    this.size.addEventListener("input", change(this.size, this.slider));
    this.slider.addEventListener("input", change(this.slider, this.size));
    this.ttl.addEventListener("input", change(this.ttl, this.ttl));
    this.result = make("p", { class: "bcvm-result", role: "status", "aria-live": "polite" });
    this.chart = make("div", { class: "bcvm-chart" });
    this.source = make("p", { class: "bcvm-source" });
    this.element = make(
      "div",
      { class: "bcvm-what-if" },
      make("h4", {}, "what if"),
      make("div", { class: "bcvm-limits" }, make("label", {}, "max_size ", this.size), this.slider, make("label", {}, "ttl ", this.ttl, " s")),
      this.result,
      this.chart,
      this.source,
    );
  }

  show(message) {
    this.message = message;
    if (!this.touched) {
      this.size.value = String(message.size);
      this.ttl.value = String(message.ttl_s);
    }
    this.slider.max = String(Math.max(message.size, 2 * (this.answer?.kernels ?? 0), Number(this.size.value)));
    this.slider.value = this.size.value;
    if (!this.answer && message.what_if) this.hear(message.what_if);
    this.draw();
    const more = message.recorded_calls && message.recorded_calls !== this.answer?.calls;
    if (more && performance.now() - (this.last ?? -1e9) > Math.max(5000, 20 * (this.took ?? 0))) this.question();
  }

  // One question at a time: a slider asks more often than a busy kernel answers.
  question() {
    const [size, ttl_s] = [Math.round(Number(this.size.value)), Number(this.ttl.value)];
    if (!(size >= 1) || !(ttl_s >= 0)) return;
    if (this.asked !== null && performance.now() - this.asked < 5000) {
      this.pending = true;
      return;
    }
    this.asked = this.last = performance.now();
    this.pending = false;
    this.ask({ size, ttl_s });
  }

  hear(answer) {
    if (this.asked !== null) this.took = performance.now() - this.asked;
    this.asked = null;
    if (answer) this.answer = answer;
    if (this.message) this.draw();
    if (this.pending) this.question();
  }

  draw() {
    const answer = this.answer;
    const recorded = this.message.recorded_calls;
    setText(
      this.source,
      recorded
        ? `Recorded: ${recorded.toLocaleString("en")} calls in ${spanText(this.message.recorded_s)}: up to 32 just after a look, and one of each other kernel between two.`
        : "Calls are recorded while a dashboard is open: run a cell with fused kernels.",
    );
    this.chart.hidden = this.result.hidden = !answer;
    if (!answer) return;
    const limits = `with max_size=${answer.size} and ttl=${answer.ttl_s}`;
    const made = `${answer.spliced.toLocaleString("en")} made code, ${answer.again.toLocaleString("en")} of them again (${duration(answer.splice_us)})`;
    setText(
      this.result,
      `${shareText(answer.hits, answer.calls)} hits ${limits}: ${answer.hits.toLocaleString("en")} of ${answer.calls.toLocaleString("en")} calls of ` +
        `${kernelsText(answer.kernels)}; ${made}, at most ${kernelsText(answer.peak_entries)} held, ${byteText(answer.peak_bytes)}.${nowText(answer)}`,
    );
    const state = JSON.stringify(answer);
    if (state === this.charted) return;
    this.charted = state;
    this.chart.replaceChildren(hitsChart(answer));
  }
}

// The same for the limits in force, where they are others.
function nowText({ now, now_ttl_s, size, ttl_s, calls }) {
  return now.size === size && now_ttl_s === ttl_s ? "" : ` As it is now, ${now.size} and ${now_ttl_s}: ${shareText(now.hits, calls)}.`;
}

// Hits by size as bars; the size that was asked for is marked.
function hitsChart(answer) {
  const tried = new Map([...answer.sizes, { size: answer.size, hits: answer.hits }].map((each) => [each.size, each.hits]));
  const sizes = [...tried].sort(([a], [b]) => a - b);
  const [step, high, top] = [46, 62, 14];
  const width = step * sizes.length;
  const parts = sizes.flatMap(([size, hits], n) => {
    const tall = Math.max(1, (high * hits) / answer.calls);
    const [x, y] = [n * step + 8, top + high - tall];
    const asked = size === answer.size;
    const middle = { x: x + 15, "text-anchor": "middle" };
    return [
      DRAW("path", { d: `M${x} ${y}h30v${tall}h-30Z`, class: `bcvm-bar-size${asked ? " bcvm-asked" : ""}` }),
      DRAW("text", { ...middle, y: y - 3 }, shareText(hits, answer.calls)),
      DRAW("text", { ...middle, y: top + high + 13, class: asked ? "bcvm-asked" : "" }, asked ? `▸${size}` : String(size)),
    ];
  });
  const about = `Hits by max_size: ${sizes.map(([size, hits]) => `${size}: ${shareText(hits, answer.calls)}`).join(", ")}`;
  return DRAW("svg", { viewBox: `0 0 ${width} ${top + high + 18}`, width, role: "img", "aria-label": about }, ...parts);
}
