// Words, marks and small helpers. The files of this folder, in the order that `script` in live.py gives, are one ES module: nothing is
// fetched, nothing is built. What traits and commands hold is described in protocol.py; VERSION is checked before anything is read.

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

// --- small helpers

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

// A mark that says something is an image with that name; one that says nothing is none.
function setNamed(node, word) {
  for (const [name, value] of Object.entries({ role: "img", "aria-label": word }))
    if (word) node.setAttribute(name, value);
    else node.removeAttribute(name);
}

function duration(us) {
  if (us === null || us === undefined) return "";
  for (const [unit, size] of [
    ["s", 1e6],
    ["ms", 1e3],
  ])
    if (us >= 0.9995 * size) return `${digits(us / size)}\u00a0${unit}`; // no line ends between a number and its unit
  return `${digits(us)}\u00a0µs`;
}

const digits = (x) => (x >= 999.5 ? Math.round(x).toLocaleString("en") : String(Number(x.toPrecision(3))));
const count = (n) => (n ? n.toLocaleString("en") : "");
const shortCount = (n) =>
  n < 99_950 ? n.toLocaleString("en") : n < 999_500 ? `${digits(n / 1e3)}k` : n < 999_500_000 ? `${digits(n / 1e6)}M` : `${digits(n / 1e9)}G`;
const clock = (us) => (us < 1e6 ? duration(us) : `${(us / 1e6).toFixed(1)}\u00a0s`);

// A bound in milliseconds, whatever its size: two of them beside each other can be compared.
const inMs = (us) => `${digits(us / 1000)}\u00a0ms`;

// The tab that an arrow key leads to from the one that has the focus, or null; what is left of the event is dealt with here.
function tabAt(event, tabs) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const from = tabs.indexOf(event.target);
  if (!step || from < 0) return null;
  event.preventDefault();
  event.stopPropagation();
  return tabs[(from + step + tabs.length) % tabs.length];
}

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

// Code may be broken after these, and nowhere within a name.
function breakable(text) {
  const parts = text.split(/(?<=[(,])|(?<=\.)(?=[A-Za-z_])/);
  return parts.flatMap((part, n) => (n ? [make("wbr"), part] : [part]));
}

const TOKENS = new RegExp(
  [
    "(#.*$)",
    `([rbfuRBFU]{0,2}(?:"(?:\\\\.|[^"\\\\])*"|'(?:\\\\.|[^'\\\\])*'))`,
    "\\b(and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in" +
      "|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield|None|True|False)\\b",
    "(\\b\\d[\\w.]*)",
  ].join("|"),
  "g",
);

function highlighted(text) {
  const out = document.createDocumentFragment();
  let done = 0;
  for (const found of text.matchAll(TOKENS)) {
    out.append(...breakable(text.slice(done, found.index)));
    const kind = found[1] ? "comment" : found[2] ? "string" : found[3] ? "keyword" : "literal";
    out.append(make("span", { class: `bcvm-${kind}` }, found[0]));
    done = found.index + found[0].length;
  }
  out.append(...breakable(text.slice(done)));
  return out;
}

// Beside the op's own name, its kernel needs only the rest: "exp.template.float32" is "template.float32".
const shortName = (kernel, op) => (op && kernel.startsWith(`${op}.`) ? kernel.slice(op.length + 1) : kernel);

function linesOf(instruction, unit) {
  if (!instruction.span) return [];
  const [first, , last] = instruction.span;
  const end = instruction.role === "flow" && /LOOP|JUMP|ITER/.test(instruction.opcode) ? first : last;
  const out = [];
  for (let line = Math.max(first, unit.first_line); line <= Math.min(end, unit.first_line + unit.lines.length - 1); line++)
    out.push(line - unit.first_line);
  return out;
}

const sourceCell = (text) =>
  make("code", { style: `--depth: ${text.length - text.trimStart().length + 4}ch` }, highlighted(text));

const POLICY = /\bpolicy_\d+\b/;

// The meanings of the words of an instruction: its opcode, its op, its policy.
function meanings(instruction, glossary) {
  const words = [instruction.opcode, instruction.op, instruction.operands.match(POLICY)?.[0]];
  return words.filter((word) => word && glossary[word]).map((word) => `${word}: ${glossary[word]}`);
}

function instructionEntry(instruction, inside, glossary) {
  const depth = instruction.part ? instruction.part.split(".").length : 0;
  const code = make("code", { style: `--depth: ${2 * depth}ch` });
  if (instruction.label) code.append(make("span", { class: "bcvm-label" }, `${instruction.label}: `));
  const about = meanings(instruction, glossary).join("\n");
  const opcode = make("span", { class: "bcvm-opcode", title: about || null }, instruction.opcode);
  code.append(opcode, " ", ...breakable(instruction.operands));
  if (instruction.notes.length) code.append(make("span", { class: "bcvm-comment" }, `  ; ${instruction.notes.join(", ")}`));
  return {
    number: String(instruction.pc),
    code,
    class: `bcvm-role-${instruction.role}${inside ? " bcvm-region" : ""}`,
    op: instruction.op,
  };
}

function detailText(select, unit, choice, figures, glossary) {
  const name =
    select.kind === "lines"
      ? `line ${unit.first_line + select.n}`
      : `${unit.instructions[select.n].opcode} ${unit.instructions[select.n].operands}`;
  const [runs, timed, total, last] = ["runs", "timed", "total_us", "last_us"].map((column) => figures[column][select.n]);
  const place = choice.first === null || choice.first === undefined ? null : choice.first;
  const first = select.kind === "lines" ? `line ${unit.first_line + place}` : `pc ${unit.instructions[place]?.pc}`;
  const parts = [name, [choice.kernels.join(", "), TIERS[choice.tier]?.about].filter(Boolean).join(", "), choice.signature];
  if (runs) parts.push(`${count(runs)} run${runs === 1 ? "" : "s"}`);
  if (!timed && place !== null) parts.push(`its time stands at ${first}, where its kernel begins`);
  if (timed)
    parts.push(
      `mean ${duration(total / timed)}, last ${duration(last)}, total ${duration(total)}${timed < runs ? ` (measured in ${count(timed)})` : ""}`,
    );
  if (choice.reason) parts.push(`last handed back: ${choice.reason}`);
  if (select.kind === "instructions") parts.push(...meanings(unit.instructions[select.n], glossary));
  return parts.filter(Boolean).join("  ·  ");
}
