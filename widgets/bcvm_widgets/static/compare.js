// Two versions side by side: before and after specialisation, other shapes, tiers, functions. Marks and braces go with each colour.

const DIFF_MARKS = {
  "=": { mark: "", word: "" },
  "~": { mark: "~", word: "changed" },
  "-": { mark: "\u2212", word: "only left" },
  "+": { mark: "+", word: "only right" },
};

class CompareView {
  // `ask(left, right)`: which two are wanted, by name; "" where the kernel chooses.
  constructor(ask) {
    this.sides = ["First version", "Second version"].map((name) =>
      make("select", { "aria-label": name, onchange: () => ask(...this.sides.map((side) => side.value)) }),
    );
    this.swap = make("button", { type: "button", class: "bcvm-button", onclick: () => ask(this.sides[1].value, this.sides[0].value) }, "\u21c4 Swap");
    this.note = make("p", { class: "bcvm-source", role: "status" });
    this.heads = ["", "pc", "", "pc", ""].map((name, n) => make("th", { scope: "col" }, n ? name : make("span", { class: "bcvm-unseen" }, "change")));
    this.body = make("tbody");
    const table = make("table", { "aria-label": "Two versions" }, make("thead", {}, make("tr", {}, ...this.heads)), this.body);
    this.list = make("div", { class: "bcvm-diff-list", role: "group", tabindex: "0", "aria-label": "Two versions side by side" }, table);
    this.list.addEventListener("keydown", (event) => /^(Arrow|Page|Home|End)/.test(event.key) && event.stopPropagation());
    this.full = make("div", {}, make("div", { class: "bcvm-controls" }, this.sides[0], this.swap, this.sides[1]), this.note, this.list);
    this.details = make(
      "details",
      { class: "bcvm-machine bcvm-compare", ontoggle: () => this.details.open && ask("", "") },
      make("summary", {}, "compare versions"),
      this.full,
    );
    this.element = this.details;
  }

  get open() {
    return this.details.open;
  }

  show(message) {
    const state = JSON.stringify(message ?? null);
    if (state === this.state || !message) return;
    this.state = state;
    const names = message.versions ?? [];
    this.list.hidden = this.swap.hidden = !names.length;
    this.sides.forEach((side, n) => {
      side.hidden = !names.length;
      options(side, names.map((name) => [name, name]), n ? message.right : message.left);
    });
    const more = message.left_out ? `  \u00b7  ${count(message.left_out)} more rows are not shown` : "";
    setText(this.note, names.length ? message.summary + more : "There is nothing to compare yet.");
    setText(this.heads[2], message.left);
    setText(this.heads[4], message.right);
    this.body.replaceChildren(...(message.rows ?? []).map((row) => this.row(row)));
  }

  row(row) {
    const found = DIFF_MARKS[row.mark] ?? DIFF_MARKS["="];
    const mark = make("span", { class: "bcvm-mark", title: found.word || null }, found.mark);
    setNamed(mark, found.word);
    const side = (parts) => make("td", {}, make("code", {}, ...parts.map((part) => this.part(part, row.mark))));
    const number = (text) => make("td", { class: "bcvm-number" }, text);
    const out = make("tr", {}, make("td", {}, mark), number(row.left_number), side(row.left), number(row.right_number), side(row.right));
    out.dataset.mark = found.word.replace(" ", "-");
    return out;
  }

  part(part, mark) {
    if (!part.changed) return part.text;
    return make("mark", {}, mark === "~" ? `{${part.text}}` : part.text);
  }
}
