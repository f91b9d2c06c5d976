// What the marks and words of the dashboard mean.

class Legend {
  constructor() {
    const marks = Object.entries(TIERS)
      .filter(([, tier]) => tier.mark)
      .map(([name, tier]) => {
        const item = make("span", { title: tier.about }, make("span", { class: "bcvm-mark", "aria-hidden": "true" }, tier.mark), ` ${tier.word}`);
        item.dataset.tier = name;
        return item;
      });
    this.words = make("dl", {});
    const scrolled = make("div", { class: "bcvm-words", role: "group", tabindex: "0", "aria-label": "What the words mean" }, this.words);
    this.details = make("details", {}, make("summary", {}, "words"), scrolled);
    this.element = make("div", { class: "bcvm-legend", role: "group", "aria-label": "Legend" }, ...marks, this.details);
    this.known = "";
  }

  // The opcodes and policies of a listing; ops say at the place what they do.
  explain(glossary) {
    const words = Object.entries(glossary).filter(([word]) => /^([A-Z_]+|policy_\d+)$/.test(word));
    const known = JSON.stringify(words);
    if (known === this.known) return;
    this.known = known;
    const own = [
      ["tensor ops", "calls of the op table: by kernels, or left to Python; other Python statements are not counted"],
      ["runs", "executions by the VM since the cell began"],
      ["total, last", "time in kernels while a dashboard is open; of a fused kernel at its first op, to which \u201cin N\u201d points"],
    ];
    this.words.replaceChildren(...[...own, ...words].flatMap(([word, text]) => [make("dt", {}, word), make("dd", {}, text)]));
  }
}
