// The time axis with the steps, and the whole run above it, in which a frame marks what is looked at.
const { drawTicks, penOf, toNs, toX } = TraceweaveTimelineView;
const { text } = TraceweaveCharts;
const STEPS = 16;

export function drawRuler(canvas, corner, view, run, colours) {
  const { pen, width, height } = penOf(canvas);
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  corner.textContent = drawTicks(pen, view, width, height - STEPS, height - STEPS, colours);
  steps(pen, view, run, width, height, colours);
  selection(pen, view, width, height, colours);
}

function steps(pen, view, run, width, height, colours) {
  const top = height - STEPS;
  pen.textAlign = "left";
  run.steps.forEach((step, i) => {
    const from = toX(view, width, step.start_ns);
    const to = toX(view, width, step.end_ns);
    if (from > width || to < 0) return;
    pen.fillStyle = colours.ink;
    pen.globalAlpha = i % 2 ? 0.05 : 0.11;
    pen.fillRect(from, top, Math.max(to - from, 0.5), STEPS - 1);
    pen.globalAlpha = 1;
    const left = Math.max(from, 0);
    const room = Math.min(to, width) - left;
    const label = room > 54 ? `step ${step.step}${step.is_inferred && room > 110 ? " (inferred)" : ""}` : String(step.step);
    if (room < 8 + 6.5 * label.length) return;
    pen.fillStyle = colours.soft;
    pen.fillText(label, left + 4, top + STEPS / 2);
  });
}

function selection(pen, view, width, height, colours) {
  if (!view.selection) return;
  const { from, until } = view.selection;
  const [left, right] = [toX(view, width, from), toX(view, width, until)];
  pen.fillStyle = colours.accent;
  pen.globalAlpha = 0.25;
  pen.fillRect(left, 0, right - left, height - STEPS);
  pen.globalAlpha = 1;
  const label = text(until - from, "duration");
  const middle = Math.min(Math.max((left + right) / 2, 40), width - 40);
  const wide = pen.measureText(label).width + 10;
  pen.fillStyle = colours.accent;
  pen.fillRect(middle - wide / 2, 2, wide, height - STEPS - 4);
  pen.fillStyle = colours.page;
  pen.textAlign = "center";
  pen.fillText(label, middle, (height - STEPS) / 2 + 0.5);
  pen.textAlign = "left";
}

// The mean over all ranks of how busy they are, over the whole run.
export class Overview {
  constructor(canvas, view, colours) {
    Object.assign(this, { canvas, view, colours, means: null });
    this.listen();
  }

  take({ category, block, busy, block_ns }) {
    const columns = Math.ceil(this.view.span / block_ns) + 1;
    const means = new Float32Array(3 * columns);
    for (let i = 0; i < block.length; i += 1) means[category[i] * columns + block[i]] += busy[i];
    this.means = { means, columns, first: 0, block: block_ns };
  }

  get whole() {
    return { from: 0, length: this.view.span };
  }

  draw() {
    const { colours, view } = this;
    const { pen, width, height } = penOf(this.canvas);
    pen.fillStyle = colours.panel;
    pen.fillRect(0, 0, width, height);
    if (this.means) this.drawMeans(pen, width, height);
    const [left, right] = [toX(this.whole, width, view.from), toX(this.whole, width, view.until)];
    pen.fillStyle = colours.page;
    pen.globalAlpha = 0.62;
    pen.fillRect(0, 0, left, height);
    pen.fillRect(right, 0, width - right, height);
    pen.globalAlpha = 1;
    pen.fillStyle = colours.ink;
    pen.fillRect(left - 1, 0, 2, height);
    pen.fillRect(right - 1, 0, 2, height);
    if (view.selection) {
      const from = toX(this.whole, width, view.selection.from);
      pen.fillStyle = colours.accent;
      pen.fillRect(from, height - 3, Math.max(toX(this.whole, width, view.selection.until) - from, 2), 3);
    }
  }

  drawMeans(pen, width, height) {
    const { means, columns, first, block } = this.means;
    const wide = Math.max((block / this.view.span) * width, 0.7);
    for (let x = 0; x < columns; x += 1) {
      const at = toX(this.whole, width, (first + x) * block);
      let bottom = height;
      let room = 1;
      for (let c = 0; c < 3; c += 1) {
        const share = Math.min(means[c * columns + x], room);
        room -= share;
        pen.fillStyle = this.colours.categories[c];
        pen.fillRect(at, bottom - share * height, wide, share * height);
        bottom -= share * height;
      }
    }
  }

  // Drag draws a new frame; a click centres the view.
  listen() {
    let held = null;
    const at = (event) => toNs(this.whole, this.canvas.clientWidth, event.clientX - this.canvas.getBoundingClientRect().left);
    this.canvas.addEventListener("pointerdown", (event) => {
      held = at(event);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (held === null) return;
      const now = at(event);
      const least = (4 / this.canvas.clientWidth) * this.view.span;
      if (Math.abs(now - held) > least) this.view.look(Math.min(held, now), Math.abs(now - held));
    });
    this.canvas.addEventListener("pointerup", (event) => {
      const least = (4 / this.canvas.clientWidth) * this.view.span;
      if (held !== null && Math.abs(at(event) - held) <= least) this.view.look(held - this.view.length / 2, this.view.length);
      held = null;
    });
  }
}
