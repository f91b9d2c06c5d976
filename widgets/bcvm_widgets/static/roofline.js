// The roof of a machine (what its cores and its memory allow) and points under it.

const ROOF = { width: 460, height: 250, left: 48, right: 10, top: 26, bottom: 34, low: -3, high: 3 };

// `points`: {density, rate, measured, name}; rates in GFLOP/s. `cores`: whose roof is drawn.
function roofline(roof, points, cores) {
  const share = (rate) => (cores >= roof.cores ? rate.every : Math.min(rate.every, rate.one * cores));
  const top = Math.max(...roof.compute.map(share));
  const yHigh = Math.ceil(Math.log10(top) + 0.1);
  const yLow = Math.min(-1, Math.floor(Math.min(...points.map((point) => Math.log10(point.rate)))));
  const between = (low, value, high) => Math.max(low, Math.min(high, value));
  const x = (density) => {
    const at = between(ROOF.low, Math.log10(density), ROOF.high);
    return ROOF.left + ((ROOF.width - ROOF.left - ROOF.right) * (at - ROOF.low)) / (ROOF.high - ROOF.low);
  };
  const y = (rate) => {
    const at = between(yLow, Math.log10(rate), yHigh);
    return ROOF.top + ((ROOF.height - ROOF.top - ROOF.bottom) * (yHigh - at)) / (yHigh - yLow);
  };
  const parts = [];
  for (let power = yLow; power <= yHigh; power++) {
    parts.push(DRAW("path", { d: `M${ROOF.left} ${y(10 ** power)}H${ROOF.width - ROOF.right}`, class: "bcvm-grid" }));
    parts.push(DRAW("text", { x: ROOF.left - 5, y: y(10 ** power) + 4, "text-anchor": "end" }, digits(10 ** power)));
  }
  for (let power = ROOF.low; power <= ROOF.high; power++)
    parts.push(DRAW("text", { x: x(10 ** power), y: ROOF.height - 18, "text-anchor": power === ROOF.high ? "end" : "middle" }, digits(10 ** power)));
  const axis = { x: ROOF.width - ROOF.right, y: ROOF.height - 3, "text-anchor": "end" };
  parts.push(DRAW("text", axis, "operations per byte"));
  parts.push(DRAW("text", { x: 2, y: 10 }, `GFLOP/s, ${cores === 1 ? "one core" : `${cores} cores`}`));
  const labels = []; // over the lines, under the points
  roof.memory.forEach((level, n) => {
    const speed = share(level);
    const from = Math.max(10 ** ROOF.low, 10 ** yLow / speed);
    parts.push(DRAW("path", { d: `M${x(from)} ${y(from * speed)}L${x(top / speed)} ${y(top)}`, class: "bcvm-roof" }));
    const at = 10 ** (yLow + 0.2 + 0.3 * n); // each name at a height of its own, below most points
    const [place, text] = [{ x: x(at / speed) + 6, y: y(at) + 4 }, `${level.name} ${digits(speed)} GB/s`];
    labels.push(DRAW("rect", { x: place.x - 2, y: place.y - 10, width: 6.1 * text.length + 4, height: 13, class: "bcvm-behind" }));
    labels.push(DRAW("text", place, text));
  });
  let above = Infinity;
  for (const kind of [...roof.compute].sort((a, b) => share(a) - share(b))) {
    const rate = share(kind);
    above = Math.min(above - 12, y(rate) - 3); // no name on another
    const start = x(rate / Math.max(...roof.memory.map(share)));
    parts.push(DRAW("path", { d: `M${start} ${y(rate)}H${ROOF.width - ROOF.right}`, class: "bcvm-roof" }));
    const place = { x: ROOF.width - ROOF.right - 2, y: above, "text-anchor": "end" };
    labels.push(DRAW("text", place, `${kind.name} ${digits(rate)}`));
  }
  parts.push(...labels);
  const names = []; // where those of the points stand: none on another
  for (const point of points) {
    const [px, py] = [x(point.density), y(point.rate)];
    const d = point.measured ? SHAPES.selected(px, py) : SHAPES.fused(px, py);
    parts.push(DRAW("path", { d, class: `bcvm-dots bcvm-dots-fused${point.measured ? "" : " bcvm-warm"}` }));
    const name = { x: px + 8, y: py + 4, class: "bcvm-point" };
    while (names.some((other) => Math.abs(other.x - name.x) < 70 && Math.abs(other.y - name.y) < 12)) name.y += 12;
    names.push(name);
    parts.push(DRAW("text", name, point.name));
  }
  const about = points
    .map((point) => `${point.name}: ${digits(point.density)} operations per byte, ${digits(point.rate)} GFLOP/s`)
    .join("; ");
  return DRAW(
    "svg",
    { viewBox: `0 0 ${ROOF.width} ${ROOF.height}`, width: "100%", role: "img", "aria-label": `Roofline. ${about}` },
    ...parts,
  );
}
