// The kernels of the code cache as a table: sorted by any column, filtered, chosen by pointer or keys.

const STATES = {
  running: { mark: "▶", about: "called since the last look" },
  warm: { mark: "●", about: "called lately" },
  cold: { mark: "○", about: "idle for a quarter of the time that it is kept, or longer" },
  evicted: { mark: "✕", about: "no longer there" },
};
const ORDER = Object.keys(STATES);
const GONE_S = 6; // for so long an evicted kernel stays in the table

const CACHE_COLUMNS = [
  { name: "state", by: (row) => [!row.pinned, ORDER.indexOf(row.state)], about: "running, warm, cold or pinned" },
  { name: "kernel", by: (row) => [row.label], about: "ops; place, operands and shapes of one call" },
  { name: "hits", by: (row) => [-row.hits], right: true, down: true, about: "calls that found it" },
  { name: "bytes", by: (row) => [-row.code_bytes], right: true, down: true, about: "of code" },
  { name: "age", by: (row) => [-row.made_s], right: true, about: "since it was made" },
  { name: "left", by: (row) => [-row.used_s], right: true, down: true, about: "of its time, if nobody calls it" },
  { name: "name", by: (row) => [row.name], about: "for bcvm.cache.pin and evict" },
];

function compared(a, b) {
  for (let k = 0; k < a.length; k++) if (a[k] !== b[k]) return a[k] < b[k] ? -1 : 1;
  return 0;
}

const opsOf = (row) => row.label.split("+").join(", ");

class CacheTable {
  // `onChoose` is called when another row is chosen, `onAct` with "pin" or "evict" for keys.
  constructor(onChoose, onAct) {
    this.onChoose = onChoose;
    this.onAct = onAct;
    this.column = CACHE_COLUMNS[5];
    this.turned = false;
    this.chosen = null; // a name
    this.rows = new Map();
    this.order = [];
    this.heads = CACHE_COLUMNS.map((column) => {
      const button = make("button", { type: "button", title: column.about, onclick: () => this.sort(column) }, column.name);
      return make("th", { scope: "col", class: column.right ? "bcvm-right" : "" }, button);
    });
    this.body = make("tbody", { onkeydown: (event) => this.key(event) });
    const table = make(
      "table",
      { role: "grid", "aria-readonly": "true", "aria-label": "Kernels in the code cache" },
      make("thead", {}, make("tr", {}, ...this.heads)),
      this.body,
    );
    this.element = make("div", { class: "bcvm-kernels" }, table);
    this.showHeads();
  }

  sort(column) {
    this.turned = this.column === column && !this.turned;
    this.column = column;
    this.showHeads();
    this.again();
  }

  showHeads() {
    CACHE_COLUMNS.forEach((column, n) => {
      const on = column === this.column;
      const down = Boolean(column.down) !== this.turned; // `by` of such a column has the largest first
      this.heads[n].setAttribute("aria-sort", on ? (down ? "descending" : "ascending") : "none");
      setText(this.heads[n].firstChild, `${column.name}${on ? (down ? " ▾" : " ▴") : ""}`);
    });
  }

  // `now`: the time on the kernel's clock.
  show(message, filter, now) {
    this.message = message;
    this.filter = filter;
    const held = new Set(message.rows.map((row) => row.name));
    const lately = message.gone.filter((gone) => now - gone.at_s < GONE_S && !held.has(gone.name));
    const seen = new Set();
    const gone = lately.filter(({ name }) => !seen.has(name) && seen.add(name)).map(goneRow);
    const wanted = filter.trim().toLowerCase();
    const fits = (row) => !wanted || rowText(row).includes(wanted);
    const shown = [...message.rows, ...gone].filter(fits);
    for (const row of shown) this.row(row).data = row;
    const names = new Set(shown.map((row) => row.name));
    for (const name of [...this.rows.keys()]) if (!names.has(name)) this.drop(name);
    this.arrange(shown);
    for (const row of this.rows.values()) this.fill(row, message, now);
    return shown.length;
  }

  again() {
    this.order = [];
    if (this.message) this.arrange([...this.rows.values()].map((row) => row.data));
  }

  // Rows stay where they are while somebody points at them or goes through them.
  arrange(shown) {
    const by = this.column.by;
    const sorted = [...shown].sort((a, b) => (this.turned ? -1 : 1) * compared(by(a), by(b)) || compared([a.name], [b.name]));
    const busy = this.order.length && (this.body.matches(":hover") || this.body.querySelector(":focus-visible"));
    const known = new Set(this.order);
    const names = sorted.map((row) => row.name);
    const order = busy ? [...this.order.filter((name) => this.rows.has(name)), ...names.filter((name) => !known.has(name))] : names;
    if (order.join() !== this.order.join()) {
      const focused = this.body.contains(document.activeElement) ? document.activeElement : null;
      order.forEach((name, n) => {
        const element = this.rows.get(name).element;
        if (this.body.children[n] !== element) this.body.insertBefore(element, this.body.children[n] ?? null);
      });
      this.order = order;
      if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true }); // moving it took that away
    }
    const stop = this.rows.has(this.chosen) ? this.chosen : order[0];
    for (const [name, row] of this.rows) row.element.tabIndex = name === stop ? 0 : -1;
  }

  row(data) {
    const found = this.rows.get(data.name);
    if (found) return found;
    const mark = make("span", { class: "bcvm-mark", "aria-hidden": "true" });
    const state = make("span", {});
    const ops = make("code", {});
    const about = make("span", { class: "bcvm-about" });
    const [hits, bytes, age] = [0, 1, 2].map(() => make("td", { class: "bcvm-right" }));
    const left = make("span", { class: "bcvm-figure" });
    const bar = make("span", { class: "bcvm-bar", "aria-hidden": "true" });
    const element = make(
      "tr",
      { tabindex: "-1", "aria-selected": "false", onclick: () => this.choose(data.name), onfocus: () => this.choose(data.name) },
      make("td", { class: "bcvm-states" }, mark, " ", state),
      make("td", { class: "bcvm-kernel" }, ops, about),
      hits,
      bytes,
      age,
      make("td", { class: "bcvm-right bcvm-total" }, bar, left),
      make("td", {}, make("code", {}, data.name.slice(0, 8))),
    );
    const row = { data, element, mark, state, ops, about, hits, bytes, age, left, bar };
    this.rows.set(data.name, row);
    this.body.append(element);
    return row;
  }

  drop(name) {
    this.rows.get(name).element.remove();
    this.rows.delete(name);
    this.order = this.order.filter((other) => other !== name);
  }

  fill(row, message, now) {
    const { data } = row;
    const evicted = data.state === "evicted";
    row.element.dataset.state = data.state;
    setClass(row.element, "bcvm-kept", data.pinned);
    setText(row.mark, STATES[data.state].mark);
    row.mark.parentElement.title = STATES[data.state].about;
    setText(row.state, stateText(data));
    setText(row.ops, opsOf(data));
    setText(row.about, evicted ? "" : aboutText(data));
    setText(row.hits, data.hits.toLocaleString("en"));
    setText(row.bytes, data.code_bytes.toLocaleString("en"));
    setText(row.age, evicted ? "" : spanText(Math.max(0, now - data.made_s)));
    const rest = Math.max(0, message.ttl_s - (now - data.used_s));
    setText(row.left, evicted ? "" : data.pinned ? "stays" : spanText(rest));
    row.bar.style.width = evicted || data.pinned || !message.ttl_s ? "0" : `${(100 * rest) / message.ttl_s}%`;
    const on = data.name === this.chosen;
    setClass(row.element, "bcvm-linked", on);
    if (row.element.getAttribute("aria-selected") !== String(on)) row.element.setAttribute("aria-selected", String(on));
  }

  choose(name) {
    if (this.chosen === name) return;
    this.chosen = name;
    for (const [each, row] of this.rows) {
      setClass(row.element, "bcvm-linked", each === name);
      row.element.setAttribute("aria-selected", String(each === name));
      row.element.tabIndex = each === name ? 0 : -1;
    }
    this.onChoose();
  }

  // The row that is chosen, where it is still there.
  get current() {
    const data = this.rows.get(this.chosen)?.data;
    return data && data.state !== "evicted" ? data : null;
  }

  key(event) {
    const n = this.order.findIndex((name) => this.rows.get(name).element === event.target);
    if (n < 0) return;
    const step = { ArrowDown: n + 1, ArrowUp: n - 1, Home: 0, End: this.order.length - 1 }[event.key];
    if (step !== undefined) this.rows.get(this.order[Math.max(0, Math.min(step, this.order.length - 1))]).element.focus();
    else if (event.key === "p" || event.key === "P") this.onAct("pin");
    else if (event.key === "Delete") this.onAct("evict");
    else if (event.key === "Escape") this.choose(null);
    else return;
    event.preventDefault();
    event.stopPropagation(); // else the notebook takes it for one of its own shortcuts
  }
}

const goneRow = (gone) => ({ ...gone, state: "evicted", where: "", operands: "", shapes: "", made_s: 0, used_s: 0, pinned: false, hot: false, cells: [] });

const stateText = (row) =>
  row.state === "evicted"
    ? `evicted: ${row.reason}`
    : [row.state, row.pinned && "⚑ pinned", row.hot && "★ recompiled"].filter(Boolean).join(", ");

const aboutText = (row) => [row.where, row.operands, row.shapes].filter(Boolean).join("  ·  ");

const rowText = (row) => `${opsOf(row)} ${aboutText(row)} ${stateText(row)} ${row.name}`.toLowerCase();
