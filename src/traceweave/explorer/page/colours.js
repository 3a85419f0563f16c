// Colours by what is drawn, from the style sheets.
const KINDS = ["op", "annotation", "python", "runtime", "driver", "nvtx", "os", "mpi"];

export class Colours extends TraceweaveTimelineView.Colours {
  constructor() {
    super(document.documentElement);
  }

  read() {
    super.read();
    this.kinds = KINDS.map((kind) => this.of(`host-${kind}`) || this.of("idle"));
    this.classes = new Map();
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
