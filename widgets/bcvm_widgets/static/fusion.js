// Regions as graphs, cut where they were cut; the candidates of each decision, and where they lie under the machine's roof.

const NODE = { width: 108, height: 38, step: 142, row: 62, top: 24 };

class FusionView {
  constructor() {
    this.region = make("select", { "aria-label": "Region", onchange: () => this.choose({ region: this.region.value }) });
    this.decision = make("select", {
      "aria-label": "Kernel and operands",
      onchange: () => this.choose({ decision: this.decision.value }),
    });
    this.chosen = { region: null, decision: null, candidate: null };
    this.graph = make("div", { class: "bcvm-graph", tabindex: "0", role: "group", "aria-label": "Ops of the region" });
    this.facts = make("ul", { class: "bcvm-facts" });
    this.body = make("tbody");
    const heads = ["candidate", "predicted", "measured", "verdict"];
    this.table = make(
      "table",
      { class: "bcvm-candidates", "aria-label": "Candidates" },
      make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)))),
      this.body,
    );
    this.parts = make("ul", { class: "bcvm-facts" });
    this.roof = make("div", { class: "bcvm-plot" });
    this.source = make("p", { class: "bcvm-source" });
    this.notice = make("p", { class: "bcvm-notice", role: "note" });
    this.full = make(
      "div",
      {},
      make("div", { class: "bcvm-controls" }, make("label", {}, "region ", this.region), make("label", {}, "call ", this.decision)),
      this.graph,
      this.facts,
      make(
        "div",
        { class: "bcvm-columns" },
        make("div", {}, this.table, this.parts, this.source),
        this.roof,
      ),
    );
    this.more = make("p", { class: "bcvm-source bcvm-left-out", role: "note" });
    this.element = make("div", { class: "bcvm-fusion" }, this.notice, this.full, this.more);
  }

  show(message) {
    this.message = message;
    if (!this.element.hidden) this.draw();
  }

  choose(part) {
    this.chosen = { ...this.chosen, candidate: null, ...("region" in part ? { decision: null } : {}), ...part };
    this.draw();
  }

  draw() {
    const regions = this.message?.regions ?? [];
    this.full.hidden = !regions.length;
    this.notice.hidden = Boolean(regions.length);
    setText(this.notice, "Regions of two ops or more appear here once they have run, with the kernels that they were cut into.");
    const more = this.message?.left_out ?? 0;
    this.more.hidden = !more;
    setText(this.more, leftOutText(more, regions.length));
    if (!regions.length) return;
    const state = JSON.stringify([this.message, this.chosen]);
    if (state === this.drawn) return;
    this.drawn = state;
    const name = (region) => `${region.where}: ${region.nodes.map((node) => node.op).join(", ")}`;
    const busiest = [...regions].sort((a, b) => interest(b) - interest(a))[0];
    const region = regions.find((each) => name(each) === this.chosen.region) ?? busiest;
    options(this.region, regions.map((each) => [name(each), `${name(each)} (${count(each.runs)} run${each.runs === 1 ? "" : "s"})`]), name(region));
    const calls = region.kernels.flatMap((kernel, k) => kernel.decisions.map((decision) => ({ kernel, k, decision })));
    const label = (call) => `kernel ${call.k + 1} on ${call.decision.operands}`;
    const call = calls.find((each) => label(each) === this.chosen.decision) ?? calls.at(-1) ?? null;
    options(this.decision, calls.map((each) => [label(each), label(each)]), call && label(call));
    this.decision.parentElement.hidden = !call;
    const candidates = call?.decision.candidates ?? [];
    const candidate = candidates.find((each) => each.name === this.chosen.candidate) ?? candidates[0] ?? null;
    this.drawGraph(region, call, candidate);
    this.drawFacts(region, call);
    this.drawCandidates(region, call, candidate);
    this.drawRoof(call, candidate);
  }

  // --- the graph

  drawGraph(region, call, candidate) {
    const names = kernelNames(region, call, candidate);
    const places = placesOf(region.nodes);
    const parts = [];
    let lanes = 0;
    region.nodes.forEach((node, n) => {
      for (const k of node.reads) {
        const [x0, y0, x1, y1] = [places[k].x + NODE.width, places[k].y + NODE.height / 2, places[n].x, places[n].y + NODE.height / 2];
        const cut = names[k] !== names[n] || names[n] === "by itself";
        const far = x1 - x0 > NODE.step; // over the ops between
        const over = Math.min(y0, y1) - NODE.height / 2 - 8 - 4 * (far ? lanes++ % 3 : 0);
        const d = far
          ? `M${x0} ${y0}C${x0 + 18} ${y0} ${x0 + 6} ${over} ${x0 + 28} ${over}H${x1 - 28}C${x1 - 6} ${over} ${x1 - 18} ${y1} ${x1} ${y1}`
          : `M${x0} ${y0}L${x1} ${y1}`;
        parts.push(DRAW("path", { d, class: `bcvm-edge${cut ? " bcvm-cut" : ""}` }));
        const scissors = { x: (x0 + x1) / 2, y: (far ? over : (y0 + y1) / 2) + 5, "text-anchor": "middle", class: "bcvm-scissors" };
        if (cut) parts.push(DRAW("text", scissors, "✂"));
      }
    });
    region.nodes.forEach((node, n) => {
      const { x, y } = places[n];
      const alone = names[n] === "by itself";
      const box = { x, y, width: NODE.width, height: NODE.height, rx: 4, class: `bcvm-node${alone ? " bcvm-alone" : ""}` };
      const middle = { x: x + NODE.width / 2, "text-anchor": "middle" };
      parts.push(DRAW("rect", box, DRAW("title", {}, `${node.op}, ${node.kind}: ${names[n]}`)));
      parts.push(DRAW("text", { ...middle, y: y + 16, class: "bcvm-node-op" }, node.op));
      parts.push(DRAW("text", { ...middle, y: y + 31 }, names[n]));
    });
    const width = Math.max(...places.map((place) => place.x)) + NODE.width + 8;
    const height = Math.max(...places.map((place) => place.y)) + NODE.height + 8;
    const about = region.nodes.map((node, n) => `${node.op}: ${names[n]}`).join(", ");
    this.graph.replaceChildren(DRAW("svg", { width, height, role: "img", "aria-label": about }, ...parts));
  }

  drawFacts(region, call) {
    const ops = (kernel) => kernel.nodes.map((n) => region.nodes[n].op).join(", ");
    const facts = region.kernels.flatMap((kernel, k) => kernel.patterns.map((pattern) => `kernel ${k + 1} (${ops(kernel)}), ${pattern}`));
    if (!region.kernels.length) facts.push("no kernel of several ops: nothing here is fused");
    if (call?.decision.mismatch) facts.push(`[REJECTED] ${call.decision.mismatch}`);
    if (region.reason) facts.push(`last left to Python: ${region.reason}`);
    this.facts.replaceChildren(...facts.map((fact) => make("li", { class: fact.includes("[REJECTED]") ? "bcvm-rejected" : "" }, fact)));
  }

  // --- the decision

  drawCandidates(region, call, current) {
    this.table.hidden = !call;
    const focused = [...this.body.children].findIndex((row) => row.contains(document.activeElement));
    this.body.replaceChildren(
      ...(call?.decision.candidates ?? []).map((candidate) => {
        const measured = candidate.reason ? "" : duration(call.decision.measured_us);
        const pick = make(
          "button",
          {
            type: "button",
            "aria-pressed": String(candidate === current),
            title: "Show how this one would cut the region",
            onclick: () => this.choose({ candidate: candidate.name, decision: this.decision.value, region: this.region.value }),
          },
          candidate.name,
        );
        const verdict = candidate.reason ? `[REJECTED] ${candidate.reason}` : "✓ chosen";
        return make(
          "tr",
          {},
          make("td", {}, pick),
          make("td", { class: "bcvm-right" }, duration(candidate.predicted_us)),
          make("td", { class: "bcvm-right", title: measured && `best of ${call.decision.calls} timed calls` }, measured),
          make("td", { class: candidate.reason ? "bcvm-rejected" : "" }, verdict),
        );
      }),
    );
    if (focused >= 0) this.body.children[focused]?.querySelector("button").focus();
    const cores = this.message.roof?.cores ?? 1;
    this.parts.replaceChildren(
      ...(current?.parts ?? []).map((part) => make("li", {}, partText(part, call.kernel, region, cores))),
    );
    setText(this.source, call ? sourceText(call.decision.source, this.message.roof?.cpu) : "");
  }

  drawRoof(call, candidate) {
    const roof = this.message.roof;
    if (!call || !candidate || !roof) return this.roof.replaceChildren();
    const density = (operations, nbytes) => Math.max(1e-9, operations / Math.max(1, nbytes));
    const some = candidate.parts.length > 1;
    const points = candidate.parts.map((part, n) => ({
      density: density(part.operations, part.nbytes),
      rate: Math.max(1e-9, part.operations / part.predicted_us / 1e3),
      name: `predicted${some ? ` ${letter(n)}` : ""}`,
    }));
    const took = call.decision.measured_us;
    if (!candidate.reason && took) {
      const sum = (field) => candidate.parts.reduce((all, part) => all + part[field], 0);
      const [operations, nbytes] = [sum("operations"), sum("nbytes")];
      points.push({ density: density(operations, nbytes), rate: operations / took / 1e3, measured: true, name: "measured" });
    }
    this.roof.replaceChildren(roofline(roof, points, Math.max(1, ...candidate.parts.map((part) => part.threads))));
  }
}

// Which figures predicted the times; nominal ones are no machine's.
const sourceText = (source, cpu) =>
  `Predicted by ${source} figures${cpu && cpu !== source ? ` of the machine (${cpu})` : ""}${source === "nominal" ? "; the command bcvm machine measures those of this one" : ""}.`;

// A region with decisions is looked at first, then the one that ran most often.
const interest = (region) => (region.kernels.some((kernel) => kernel.decisions.length) ? 1e12 : 0) + region.runs;

const leftOutText = (more, shown) =>
  `${count(more)} more region${more === 1 ? " is" : "s are"} not among these ${count(shown)}: those of the first lines are shown.`;

const letter = (n) => String.fromCharCode(97 + n);

function options(select, entries, current) {
  const known = JSON.stringify(entries);
  if (select.dataset.known !== known) {
    select.dataset.known = known;
    select.replaceChildren(...entries.map(([value, text]) => make("option", { value }, text)));
  }
  if (current !== null && select.value !== current) select.value = current;
}

// Of each node the kernel that runs it: "kernel 1", or "kernel 1a" where a candidate cuts that kernel's ops.
function kernelNames(region, call, candidate) {
  const names = region.nodes.map(() => "by itself");
  region.kernels.forEach((kernel, k) => {
    const shown = call && call.k === k ? candidate : kernel.decisions.at(-1)?.candidates[0];
    kernel.nodes.forEach((node, position) => {
      if (region.nodes[node].kernel !== k && call?.k !== k) return; // a product that was cut off from what follows it
      const part = (shown?.parts ?? []).findIndex((each) => each.ops.includes(position));
      names[node] = `kernel ${k + 1}${shown?.parts.length > 1 ? letter(Math.max(0, part)) : ""}`;
    });
  });
  return names;
}

// As far right as the longest way from an input, what reads none just before its first reader; below what stands there already.
function placesOf(nodes) {
  const depths = [];
  for (const node of nodes) depths.push(Math.max(0, ...node.reads.map((k) => depths[k] + 1)));
  const taken = new Map();
  return nodes.map((node, n) => {
    const readers = depths.filter((_, k) => nodes[k].reads.includes(n));
    const depth = node.reads.length || !readers.length ? depths[n] : Math.min(...readers) - 1;
    const row = taken.get(depth) ?? 0;
    taken.set(depth, row + 1);
    return { x: 6 + NODE.step * depth, y: NODE.top + NODE.row * row };
  });
}

function partText(part, kernel, region, cores) {
  const names = part.ops.map((position) => region.nodes[kernel.nodes[position]].op).join(", ");
  const work = `${shortCount(part.operations)} operations, ${shortCount(part.nbytes)} bytes in ${part.level}`;
  const density = `${digits(part.operations / Math.max(1, part.nbytes))} per byte`;
  const busy = `${part.threads} of ${cores} cores busy, ${count(part.blocks)} block${part.blocks === 1 ? "" : "s"}`;
  return `${names}: ${work}, ${density}; ${busy}; predicted ${duration(part.predicted_us)}, bound by ${part.bound}`;
}
