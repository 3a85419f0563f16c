// Colours by what is drawn, from the style sheets; read again when the system turns light or dark.
const { palette } = TraceweaveCharts;

const CATEGORIES = ["compute", "exposed-comm", "exposed-memory"];
const PATH = TraceweaveTimelineDrawing.PATH;
const KINDS = ["op", "annotation", "python", "runtime", "driver", "nvtx", "os", "mpi"];

export class Colours {
  constructor() {
    this.read();
  }

  read() {
    this.of = palette(document.documentElement);
    this.page = this.of("page");
    this.panel = this.of("panel");
    this.ink = this.of("ink");
    this.soft = this.of("soft");
    this.line = this.of("line");
    this.accent = this.of("accent");
    this.letters = this.page;
    this.categories = CATEGORIES.map(this.of);
    this.kinds = KINDS.map((kind) => this.of(`host-${kind}`) || this.of("idle"));
    this.classes = new Map();
  }

  cause(name) {
    return this.of(TraceweaveTimelineDrawing.colourOf(name)) || this.of("cause-unknown");
  }

  path(kind) {
    return this.of(PATH[kind] || "cause-unknown");
  }

  // Compute has a colour per class of kernel; communication and copies have one each.
  op(category, name) {
    if (category) return this.categories[category];
    if (!this.classes.has(name)) this.classes.set(name, this.of(`class-${name}`) || this.categories[0]);
    return this.classes.get(name);
  }
}

export const rgba = (hex, alpha = 255) => {
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return (alpha << 24) | (b << 16) | (g << 8) | r;
};
