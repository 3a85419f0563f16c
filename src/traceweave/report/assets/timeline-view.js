// What the timelines of the report and of the explorer share: the stretch of time that is looked at, where times lie on a canvas,
// the ruler, and how an operation and a stretch of time are painted. Names come from the trace and are only ever drawn as text.
const TraceweaveTimelineView = (() => {
  "use strict";

  const { moment, palette, unitOf } = TraceweaveCharts;
  const LETTER = 6.4; // pixels, of 11px type
  const ROOM = 34; // an operation this wide has its name in it
  const FAR = 5000; // ticks from zero: farther on they count from a round time

  // Colours of what the critical path is made of.
  const PATH = {
    compute: "compute",
    transfer: "exposed-comm",
    copy: "exposed-memory",
    launch: "cause-launch_bound",
    data_loading: "cause-data_loading",
    sync: "cause-sync",
    device_delay: "cause-device_delay",
    allocator: "cause-allocator",
    compilation: "cause-compilation",
    graph_capture: "cause-graph_capture",
    module_loading: "cause-module_loading",
    profiler_overhead: "cause-profiler_overhead",
  };
  // How causes begin of which communication is not hidden; the others are of time in which nothing ran.
  const EXPOSED = "exposed: ";
  const colourOf = (cause) => `cause-${cause.replace(EXPOSED, "")}`;

  // The colours of an element's style, and what is written on them; read again when the system turns light or dark.
  class Colours {
    constructor(element) {
      this.element = element;
      this.read();
    }

    read() {
      this.of = palette(this.element);
      for (const name of ["page", "panel", "ink", "soft", "line", "accent"]) this[name] = this.of(name);
      this.categories = ["compute", "exposed-comm", "exposed-memory"].map(this.of);
      this.unsplit = this.of("exposed-unsplit");
      this.letters = new Map();
    }

    cause(name) {
      return this.of(colourOf(name)) || this.of("cause-unknown");
    }

    path(kind) {
      return this.of(PATH[kind] || "cause-unknown");
    }

    // Of page and ink the one that is read more easily on a colour.
    on(fill) {
      if (!this.letters.has(fill)) this.letters.set(fill, contrast(fill, this.page) > contrast(fill, this.ink) ? this.page : this.ink);
      return this.letters.get(fill);
    }
  }

  // Contrast ratio of two #rrggbb colours, by the Web Content Accessibility Guidelines.
  function contrast(one, other) {
    const [dark, light] = [one, other].map(luminance).sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  }

  function luminance(colour) {
    const [r, g, b] = [1, 3, 5].map((i) => {
      const part = parseInt(colour.slice(i, i + 2), 16) / 255;
      return part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  // The stretch [from, until) that is looked at of `span` ns from 0, at least `shortest` long; `margin` is which part of it may lie
  // beyond either end. Whoever shows it listens to "change".
  class View extends EventTarget {
    constructor(span, shortest, margin = 0) {
      super();
      Object.assign(this, { span, shortest, margin, from: 0, until: span });
    }

    get length() {
      return this.until - this.from;
    }

    get isWhole() {
      return this.length >= this.span;
    }

    changed(what) {
      this.dispatchEvent(new CustomEvent("change", { detail: what }));
    }

    look(from, length) {
      const kept = this.kept(length);
      const beyond = kept * this.margin;
      this.from = Math.min(Math.max(from, -beyond), Math.max(this.span + beyond - kept, -beyond));
      this.until = this.from + kept;
      this.changed("time");
    }

    kept(length) {
      return Math.min(Math.max(length, this.shortest), this.span * (1 + this.margin));
    }

    zoom(factor, at = (this.from + this.until) / 2) {
      const length = this.kept(this.length * factor);
      this.look(at - ((at - this.from) / this.length) * length, length);
    }

    // By so many pixels of a mouse's wheel.
    wheel(pixels, at) {
      this.zoom(Math.exp(Math.max(-1, Math.min(1, pixels / 300))), at);
    }

    pan(part) {
      this.look(this.from + part * this.length, this.length);
    }

    whole() {
      this.look(0, this.span);
    }

    focus(from, length) {
      this.look(from - 0.25 * length, 1.5 * length);
    }
  }

  const toX = (view, width, ns) => ((ns - view.from) / view.length) * width;
  const toNs = (view, width, x) => view.from + (x / width) * view.length;

  // A canvas as large as its place on the page, in device pixels or `least` for each of CSS; returns a pen that draws in CSS pixels.
  function penOf(canvas, least = 1) {
    const scale = Math.max(window.devicePixelRatio || 1, least);
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const [w, h] = [Math.max(Math.round(width * scale), 1), Math.max(Math.round(height * scale), 1)];
    if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    return { pen, width, height };
  }

  // The distance of ticks, a round number of ns, so that about one comes every 110 pixels.
  function tickOf(length, width) {
    const raw = length / Math.max(width / 110, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    return Math.max([1, 2, 5, 10].find((one) => raw <= one * power) * power, 1);
  }

  // Ticks `tall` pixels high with their times beside them, in the middle of the `head`. Returns the time that they count from, in
  // words; "" if it is zero.
  function drawTicks(pen, view, width, head, tall, colours) {
    const every = tickOf(view.length, width);
    const far = Math.abs(view.from) / every > FAR;
    const base = far ? Math.floor(view.from / (every * 1000)) * every * 1000 : 0;
    const [size, unit] = unitOf(Math.max(Math.abs(view.until - base), 1));
    const digits = Math.min(Math.max(0, -Math.floor(Math.log10(every / size) + 1e-9)), 6);
    for (let ns = Math.ceil(view.from / every) * every; ns <= view.until; ns += every) {
      const [x, at] = [Math.round(toX(view, width, ns)) + 0.5, ns - base];
      const label = `${(at / size).toFixed(digits)} ${unit}`;
      pen.fillStyle = colours.line;
      pen.fillRect(x, 0, 1, tall);
      pen.fillStyle = colours.soft;
      if (x + 4 + LETTER * label.length <= width) pen.fillText(label, x + 4, head / 2 + 0.5);
    }
    return far ? `${moment(base).replace(/\.?0*(?= s)/, "")} +` : "";
  }

  // As much of a text as there is room for between two places, if that is not too little.
  function write(pen, text, from, to, top, height, width, colour) {
    const left = Math.max(from, 0) + 4;
    const letters = Math.floor((Math.min(to, width) - left - 2) / LETTER);
    if (letters < 3) return;
    pen.fillStyle = colour;
    pen.fillText(text.length > letters ? `${text.slice(0, letters - 1)}…` : text, left, top + height / 2 + 0.5);
  }

  // An operation between two places, paler until the place where what it waits for is there; `label` is null where it has none.
  function drawOp(pen, { from, until, to, top, height, fill, label, strength = 1 }, width, colours) {
    const end = to - from > 4 ? to - 0.6 : to;
    const waits = Math.min(until, end) - from;
    if (waits > 0) {
      pen.fillStyle = colours.panel; // what is below it knows of no waiting
      pen.fillRect(from, top, waits, height);
      pen.fillStyle = fill;
      pen.globalAlpha = 0.35 * strength;
      pen.fillRect(from, top, waits, height);
    }
    pen.fillStyle = fill;
    pen.globalAlpha = strength;
    if (end > until) pen.fillRect(until, top, end - until, height);
    pen.globalAlpha = 1;
    if (label === null || to - from <= ROOM) return;
    const inside = until - from < (to - from) / 2;
    write(pen, label, inside ? until : from, inside ? to : until, top, height, width, inside ? colours.on(fill) : colours.ink);
  }

  // A stretch without letters. The path goes on without a hole: whole pixels leave no seam.
  function drawStretch(pen, kind, from, to, top, height, fill) {
    const [left, right] = kind === "path" ? [Math.round(from), Math.round(to)] : [from, to];
    pen.fillStyle = fill;
    pen.fillRect(left, top, Math.max(right - left, 0.7), height);
  }

  return { Colours, EXPOSED, PATH, View, colourOf, drawOp, drawStretch, drawTicks, penOf, toNs, toX, write };
})();
