// Search in source and bytecode, and heat: how much of the time, or of the runs, each row has.

class Finder {
  constructor(view) {
    this.view = view;
    this.found = [];
    this.input = make("input", {
      type: "search",
      placeholder: "op, opcode, kernel or text",
      "aria-label": "Find in source and bytecode",
      oninput: () => this.find(),
      onkeydown: (event) => this.key(event),
    });
    this.count = make("span", { class: "bcvm-found", role: "status" });
    const modes = [
      ["total_us", "time"],
      ["runs", "runs"],
      ["", "off"],
    ];
    this.heat = make(
      "select",
      { "aria-label": "Heat by", onchange: () => this.warm() },
      ...modes.map(([value, name]) => make("option", { value }, name)),
    );
    this.element = make(
      "div",
      { class: "bcvm-controls bcvm-finder" },
      make("label", {}, "find ", this.input),
      this.count,
      make("label", {}, "heat by ", this.heat),
    );
  }

  // Mark the rows whose text holds what is looked for; the others step back.
  find() {
    const wanted = this.input.value.trim().toLowerCase();
    this.found = [];
    for (const pane of [this.view.lines, this.view.code]) {
      pane.rows.forEach((row, n) => {
        const fits = wanted && textOf(row).includes(wanted);
        setClass(row.element, "bcvm-hit", Boolean(fits));
        setClass(row.element, "bcvm-miss", Boolean(wanted) && !fits);
        if (fits) this.found.push([pane, n]);
      });
    }
    this.at = -1;
    setText(this.count, wanted ? `${this.found.length} found` : "");
  }

  key(event) {
    event.stopPropagation();
    if (event.key === "Escape") {
      this.input.value = "";
      this.find();
    } else if (event.key === "Enter" && this.found.length) {
      this.at = (this.at + (event.shiftKey ? this.found.length - 1 : 1)) % this.found.length;
      if (this.at < 0) this.at = this.found.length - 1;
      const [pane, n] = this.found[this.at];
      pane.reveal(n);
      this.view.point({ kind: pane.kind, n });
      setText(this.count, `${this.at + 1} of ${this.found.length}`);
    } else return;
    event.preventDefault();
  }

  // Each row's share of what the busiest row of its pane has; the figures stand beside it.
  warm() {
    for (const pane of [this.view.lines, this.view.code]) {
      const column = pane.columns?.[this.heat.value] ?? [];
      const most = Math.max(0, ...column);
      pane.rows.forEach((row, n) => {
        const share = most ? (column[n] ?? 0) / most : 0;
        const heat = share ? `${Math.round(4 + 30 * share)}%` : "0%";
        if (row.heat === heat) return;
        row.heat = heat;
        row.element.style.setProperty("--heat", heat);
      });
    }
  }
}

const textOf = (row) => `${row.entry.text ?? ""} ${row.entry.code.textContent} ${row.who.textContent} ${row.mark.title}`.toLowerCase();
