// A recorded run: the view of a dashboard before a model that a slider moves through time.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8];

// What a View needs of a model, filled from frames: each holds `at_ms` and the messages that had changed by then.
class RecordedModel {
  constructor(frames) {
    this.frames = frames;
    this.state = new Map();
    this.handlers = new Map();
    this.places = new Map(); // name -> the frames that hold it
    frames.forEach((frame, n) => {
      for (const name of Object.keys(frame)) this.places.set(name, [...(this.places.get(name) ?? []), n]);
    });
    this.seek(0);
  }

  get(name) {
    return this.state.get(name);
  }

  on(name, handler) {
    this.handlers.set(name, [...(this.handlers.get(name) ?? []), handler]);
  }

  off(name, handler) {
    this.handlers.set(name, (this.handlers.get(name) ?? []).filter((other) => other !== handler));
  }

  send() {} // there is no kernel behind it

  now() {
    return this.frames[this.position].at_ms;
  }

  // Every message as it stood at frame `n`; who listens learns of those that differ.
  seek(n) {
    this.position = n;
    const changed = [];
    for (const [name, places] of this.places) {
      const at = places.findLast((place) => place <= n);
      const value = at === undefined ? undefined : this.frames[at][name];
      if (this.state.get(name) !== value) changed.push(name);
      this.state.set(name, value);
    }
    for (const name of ["status", "listing", ...changed.filter((name) => name !== "status" && name !== "listing")])
      if (changed.includes(name)) for (const handler of this.handlers.get(`change:${name}`) ?? []) handler();
  }
}

class Player {
  constructor(frames, element) {
    this.model = new RecordedModel(frames);
    this.end = frames.at(-1).at_ms;
    this.stride = Math.max(1, Math.round(this.end / 500)); // of the slider
    this.at = 0;
    this.playing = false;
    this.build(element);
    this.view = new View(this.model, element, () => this.model.now());
    this.show();
  }

  build(element) {
    this.button = make("button", { type: "button", class: "bcvm-button", onclick: () => this.play(!this.playing) });
    this.slider = make("input", {
      type: "range",
      min: "0",
      max: String(this.end),
      step: String(this.stride),
      "aria-label": "Time",
      oninput: () => this.jump(Number(this.slider.value)),
    });
    this.slider.addEventListener("keydown", (event) => event.stopPropagation()); // else the notebook takes it for its own
    this.time = make("span", { class: "bcvm-player-time" });
    this.speed = make(
      "select",
      { "aria-label": "Speed" },
      ...SPEEDS.map((speed) => make("option", { value: String(speed), selected: speed === 1 ? "" : null }, `${speed}×`)),
    );
    const parts = [make("strong", {}, "Recorded run"), this.button, this.slider, this.time, this.speed];
    this.element = make("div", { class: "bcvm-player", role: "group", "aria-label": "Replay" }, ...parts);
    this.element.hidden = this.end === 0;
    element.append(this.element);
  }

  play(on) {
    this.playing = on;
    if (on && this.at >= this.end) this.at = 0;
    this.before = performance.now();
    clearInterval(this.timer);
    if (on) this.timer = setInterval(() => this.step(), 50);
    this.show();
  }

  step() {
    const now = performance.now();
    this.at = Math.min(this.end, this.at + (now - this.before) * Number(this.speed.value));
    this.before = now;
    if (this.at >= this.end) this.play(false);
    else this.show();
  }

  jump(at) {
    this.at = at + this.stride > this.end ? this.end : at; // the slider's last step may fall short of it
    this.before = performance.now();
    this.show();
  }

  show() {
    const n = this.model.frames.findLastIndex((frame) => frame.at_ms <= this.at);
    if (n !== this.model.position) this.model.seek(Math.max(0, n));
    const text = `${(this.at / 1000).toFixed(1)} s of ${(this.end / 1000).toFixed(1)} s`;
    this.slider.value = String(Math.round(this.at));
    this.slider.setAttribute("aria-valuetext", text);
    setText(this.time, text);
    setText(this.button, this.playing ? "❚❚ Pause" : "▶ Play");
  }

  // From its last moment on, which is what a reader wants first.
  toEnd() {
    this.jump(this.end);
    return this;
  }

  close() {
    clearInterval(this.timer);
    this.view.close();
  }
}

function replayIn(frames, element) {
  element.replaceChildren();
  return new Player(frames, element).toEnd();
}

// A replay in a notebook: its last state at once, the run when the kernel has sent it.
function replayOf(model, element) {
  let player = replayIn([model.get("last")], element);
  const receive = (content, buffers) => {
    if (content?.version !== VERSION || !content.frames) return;
    player.close();
    player = replayIn(JSON.parse(new TextDecoder().decode(buffers[0])), element);
  };
  model.on("msg:custom", receive);
  try {
    model.send({ version: VERSION, command: "frames" });
  } catch {
    // no kernel behind a saved notebook
  }
  return () => {
    model.off("msg:custom", receive);
    player.close();
  };
}
