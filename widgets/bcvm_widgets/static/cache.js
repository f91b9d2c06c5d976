// The code cache: what it holds and lets go, where the code lies, and what other limits would have meant.

class CacheView {
  // `send(order)` sends a command to the cache.
  constructor(send) {
    this.send = send;
    this.figures = make("div", { class: "bcvm-tiles" });
    this.tiles = new Map(
      [
        ["kernels", "kernels that are kept, of at most so many"],
        ["code", "bytes of their code, of at most so many"],
        ["hits", "calls that a kept kernel did"],
        ["misses", "calls that found no kernel"],
        ["evictions", "kernels that went"],
        ["pinned", "kernels that no rule evicts"],
        ["ttl", "for so long a kernel stays after its last call"],
      ].map(([name, about]) => [name, this.tile(name, about)]),
    );
    this.search = make("input", {
      type: "search",
      placeholder: "op, place, type, shape or state",
      "aria-label": "Show kernels whose text holds",
      oninput: () => this.draw(),
      onkeydown: (event) => event.stopPropagation(),
    });
    const button = (name, about, onclick) => make("button", { type: "button", class: "bcvm-button", title: about, onclick }, name);
    this.pin = button("⚑ Pin", "Keep the chosen kernel: no rule evicts it (key P)", () => this.act("pin"));
    this.evict = button("✕ Evict", "Forget the chosen kernel; its next call makes it again (key Delete)", () => this.act("evict"));
    this.clear = button("Clear cache", "Forget all kernels but those that are pinned or run", () => this.act("clear"));
    this.said = make("span", { class: "bcvm-answer", role: "status", "aria-live": "polite" });
    this.table = new CacheTable(
      () => this.draw(),
      (what) => this.act(what),
    );
    this.detail = make("div", { class: "bcvm-detail" });
    this.map = new CodeMap();
    this.whatIf = new WhatIf((limits) => this.order("whatif", limits));
    this.log = make("ol", { class: "bcvm-log", tabindex: "0", "aria-label": "Evictions, the latest first" });
    this.reasons = make("ul", { class: "bcvm-facts" });
    this.left = make("p", { class: "bcvm-source" });
    this.notice = make("p", { class: "bcvm-notice", role: "note" });
    this.full = make(
      "div",
      {},
      this.figures,
      make("div", { class: "bcvm-controls" }, make("label", {}, "filter ", this.search), this.pin, this.evict, this.clear, this.said),
      this.table.element,
      this.left,
      this.detail,
      make(
        "div",
        { class: "bcvm-columns" },
        make("div", {}, this.map.element),
        make("div", {}, this.whatIf.element),
        make("div", {}, make("h4", {}, "evictions"), this.log, make("h4", {}, "misses"), this.reasons),
      ),
    );
    this.element = make("div", { class: "bcvm-cache" }, this.notice, this.full);
    this.timer = setInterval(() => this.isLive && !this.held && this.draw(), 1000);
  }

  close() {
    clearInterval(this.timer);
  }

  tile(name, about) {
    const value = make("strong", {});
    const note = make("span", { class: "bcvm-of" });
    const meter = make("span", { class: "bcvm-meter", "aria-hidden": "true" }, make("span", {}));
    const element = make("div", { title: about }, make("span", { class: "bcvm-label-of" }, name), value, note, meter);
    this.figures.append(element);
    return { value, note, meter };
  }

  // --- what the kernel says

  show(message, held = false) {
    this.held = held;
    if (message !== this.message) {
      this.isLive = this.message !== undefined; // the first may come from a saved notebook, whose time stands still
      this.heard = performance.now();
    }
    this.message = message;
    this.draw();
  }

  // An answer to a command of this view.
  hear(answer) {
    this.isLive = true;
    if (answer.text) setText(this.said, `${answer.done ? "✓" : "✗ not done:"} ${answer.text}`);
    if (answer.what_if || !answer.text) this.whatIf.hear(answer.what_if);
  }

  get now() {
    return this.message.at_s + (this.isLive && !this.held ? (performance.now() - this.heard) / 1000 : 0);
  }

  // --- what the user wants

  act(what) {
    if (what === "clear") return this.order("clear");
    const row = this.table.current;
    if (!row) return;
    if (what === "evict") this.order("evict", { key: row.name });
    else if (row.pinned) this.order("unpin", { key: row.name });
    else this.order("pin", { key: row.name });
  }

  order(command, more = {}) {
    this.send({ command, key: "", size: 1, ttl_s: 0, ...more });
  }

  // --- drawing

  draw() {
    const message = this.message;
    if (!message || this.element.hidden) return;
    const some = Boolean(message.entries || Object.keys(message.misses).length);
    this.full.hidden = !some;
    this.notice.hidden = some;
    setText(this.notice, "Fused kernels appear here once one has been made: run a cell in which several elementwise ops follow each other.");
    if (!some) return;
    const now = this.now;
    this.drawFigures(message);
    const shown = this.table.show(message, this.search.value, now);
    const filtered = this.search.value ? `${shown} of ${message.rows.length} shown fit the filter. ` : "";
    const rest = message.left_out ? `${message.left_out.toLocaleString("en")} more kernels, used longer ago, are not sent.` : "";
    setText(this.left, filtered + rest);
    this.left.hidden = !(filtered + rest);
    this.drawChosen(message);
    this.map.show(message.memory, this.table.current);
    this.whatIf.show(message);
    this.drawLog(message, now);
  }

  drawFigures(message) {
    const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
    const fill = (name, value, note = "", part = null) => {
      const tile = this.tiles.get(name);
      setText(tile.value, value);
      setText(tile.note, note);
      tile.meter.hidden = part === null;
      if (part !== null) tile.meter.firstChild.style.width = `${Math.min(100, 100 * part)}%`;
    };
    const plain = (n) => n.toLocaleString("en");
    fill("kernels", plain(message.entries), `of ${plain(message.size)}`, message.entries / message.size);
    fill("code", byteText(message.code_bytes), `of ${byteText(message.limit_bytes)}`, message.code_bytes / message.limit_bytes);
    fill("hits", plain(message.hits), message.shared ? `${plain(message.shared)} shared` : "");
    fill("misses", plain(sum(message.misses)));
    fill("evictions", plain(sum(message.evictions)), message.put_off ? `${plain(message.put_off)} put off` : "");
    fill("pinned", plain(message.pinned));
    fill("ttl", spanText(message.ttl_s), "idle");
  }

  drawChosen(message) {
    const row = this.table.current;
    this.pin.disabled = this.evict.disabled = !row;
    setText(this.pin, row?.pinned ? "⚑ Unpin" : "⚑ Pin");
    if (!row) {
      setText(this.detail, "Choose a kernel to see where it stands, and to pin or evict it. Arrow keys move, P pins, Delete evicts, Escape lets go.");
      return;
    }
    const parts = [
      opsOf(row),
      row.where,
      row.operands,
      row.shapes && `shapes ${row.shapes}, and others`,
      `made in ${duration(row.splice_us)}`,
      `${row.sites} call site${row.sites === 1 ? "" : "s"}`,
      STATES[row.state].about,
      row.pinned && "pinned: no rule evicts it",
      row.hot && "★ better code runs some of its sizes",
      `name ${row.name}`,
    ];
    setText(this.detail, parts.filter(Boolean).join("  ·  "));
  }

  drawLog(message, now) {
    const entries = message.gone.map((gone) => [
      String(gone.number),
      `${opsOf(gone)}`,
      `✕ ${gone.reason}, ${spanText(Math.max(0, now - gone.at_s))} ago; ${hitsText(gone.hits)} in ${spanText(gone.lived_s)}`,
    ]);
    const state = JSON.stringify(entries);
    if (state !== this.logged) {
      this.logged = state;
      const items = entries.map(([number, ops, rest]) =>
        make("li", { value: number }, make("code", {}, ops), make("span", { class: "bcvm-about" }, rest)),
      );
      this.log.replaceChildren(...(items.length ? items : [make("li", { class: "bcvm-none" }, "none yet")]));
    }
    const reasons = Object.entries(message.misses).sort(([, a], [, b]) => b - a);
    const known = JSON.stringify(reasons);
    if (known === this.known) return;
    this.known = known;
    this.reasons.replaceChildren(...reasons.map(([reason, n]) => make("li", {}, `${reason}: ${n.toLocaleString("en")}`)));
  }
}
