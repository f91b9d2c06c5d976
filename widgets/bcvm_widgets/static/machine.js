// Below the listing: the machine code of a fused kernel, stencil by stencil, each linked with its instruction both ways.

const CODE_PARTS = {
  frame: "around the loop",
  loop: "in the loop, for whole steps",
  tail: "for the last, partial step",
  whole: "compiled whole, not spliced",
};

class MachineView {
  // `ask` is called with the kernel that is wanted (-1: that of the instruction that is held), `view` links rows.
  constructor(ask, view) {
    this.view = view;
    this.blocks = []; // {element, instruction}
    this.kernel = make("select", { "aria-label": "Kernel", onchange: () => ask(Number(this.kernel.value)) });
    this.chosen = make("label", {}, "kernel ", this.kernel);
    this.note = make("p", { class: "bcvm-source", role: "status" });
    this.body = make("div", { class: "bcvm-code-list", role: "group", tabindex: "0", "aria-label": "Machine code" });
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.full = make("div", {}, make("div", { class: "bcvm-controls" }, this.chosen), this.note, this.body);
    this.details = make("details", { class: "bcvm-machine bcvm-of-code", ontoggle: () => this.details.open && ask(-1) }, make("summary", {}, "machine code"), this.full);
    this.element = this.details;
  }

  get open() {
    return this.details.open;
  }

  show(message, unit) {
    const fits = message && unit && message.unit === unit.key;
    const state = fits ? JSON.stringify(message) : "";
    if (state === this.state) return;
    this.state = state;
    const kernels = fits ? message.kernels : [];
    this.chosen.hidden = !kernels.length;
    options(this.kernel, kernels.map((name, n) => [String(n), name]), kernels.length ? String(message.chosen) : null);
    setText(this.note, kernels.length ? facts(message) : "No fused kernel of this unit has run yet. Close and open this part to look again.");
    this.blocks = [];
    let before = "";
    this.body.hidden = !kernels.length;
    this.body.replaceChildren(
      ...(fits ? message.blocks : []).flatMap((block) => {
        const head = block.part === before ? [] : [make("h4", {}, CODE_PARTS[block.part])];
        before = block.part;
        return [...head, this.block(block, unit)];
      }),
    );
    this.link(new Set());
  }

  block(block, unit) {
    const n = block.instruction;
    const instruction = n === null ? null : unit.instructions[n];
    const select = { kind: "instructions", n };
    const to = instruction && `${instruction.pc} ${instruction.opcode} ${instruction.operands}`;
    const head = make(
      "div",
      { class: "bcvm-block-head" },
      make("code", {}, block.name),
      make("span", {}, block.what),
      ...(to ? [make("button", { type: "button", title: "Hold this instruction", onclick: () => this.view.pin(select) }, `→ pc ${to}`)] : []),
    );
    const lines = block.lines.map((line) =>
      make(
        "div",
        { class: "bcvm-code-line" },
        make("span", { class: "bcvm-code-at" }, line.at.toString(16).padStart(4, "0")),
        make("span", { class: "bcvm-code-bytes" }, ...patched(line.code)),
        make("span", { class: "bcvm-code-text" }, line.text, ...line.notes.map((note) => make("span", { class: "bcvm-code-note" }, ` ; ${note}`))),
      ),
    );
    const element = make("div", { class: "bcvm-block", role: "group", "aria-label": to ? `${block.name}, for ${to}` : block.name }, head, ...lines);
    if (instruction) {
      element.addEventListener("mouseenter", () => this.view.point(select, 150));
      element.addEventListener("mouseleave", () => this.view.point(null));
      head.querySelector("button").addEventListener("focus", () => this.view.point(select, 0));
    }
    this.blocks.push({ element, instruction: n });
    return element;
  }

  // Mark the blocks of some instructions; `reveal`: so that the first of them can be seen.
  link(instructions, reveal = false) {
    let first = null;
    for (const block of this.blocks) {
      const on = block.instruction !== null && instructions.has(block.instruction);
      setClass(block.element, "bcvm-linked", on);
      first ??= on ? block.element : null;
    }
    const [top, bottom] = [this.body.scrollTop + 30, this.body.scrollTop + this.body.clientHeight - 60];
    if (reveal && first && this.open && (first.offsetTop < top || first.offsetTop > bottom)) this.body.scrollTop = first.offsetTop - 30;
  }

  key(event) {
    if (event.key === "Escape") this.view.pin(null);
    else if (!/^(Arrow|Page|Home|End)/.test(event.key)) return;
    event.stopPropagation(); // the list scrolls; the notebook's cells don't change
  }
}

const facts = (message) =>
  [
    `${count(message.size)} bytes; patched bytes stand in brackets, dots where they depend on the place of the code`,
    message.obstacle,
    message.left_out ? `${count(message.left_out)} more lines are not shown: bcvm.machine_code prints them` : "",
  ]
    .filter(Boolean)
    .join("  ·  ");

// Bytes in hex; those in brackets are patches.
function patched(code) {
  return code.split(/(\[[^\]]*\]?|^[^[]*\])/).map((part) => (/[[\]]/.test(part) ? make("mark", {}, part) : part));
}
