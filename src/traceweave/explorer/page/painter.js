// Draws the rows in view on the canvas. Names come from the trace and are only ever drawn as text.
import { drawArrows } from "./arrows.js";
import { DEPTH_HEIGHT } from "./rows.js";

const { drawOp, drawStretch, penOf, toX, write } = TraceweaveTimelineView;
const FAINT = 0.22;

export const stretchesOf = (scene, row) => (row.kind === "gaps" ? scene.gaps : scene.path);

export class Painter {
  constructor(canvas, colours) {
    Object.assign(this, { canvas, colours });
    this.font = getComputedStyle(document.body).fontFamily;
  }

  paint(scene) {
    const { pen, width, height } = penOf(this.canvas);
    Object.assign(this, { matches: null, hostMatches: null, subject: scene.view.finding?.subject }, { pen, width, height, ...scene });
    pen.imageSmoothingEnabled = false;
    pen.font = `11px ${this.font}`;
    this.marks = [];
    for (const row of this.rows) {
      const top = row.top - this.scroll;
      if (top > height) break;
      if (top + row.height >= 0) this.row(row, top);
    }
    this.outside();
    for (const mark of this.marks) this.frameAround(...mark);
    drawArrows(this);
    this.grid();
    this.selected();
  }

  row(row, top) {
    const { pen, colours, width } = this;
    pen.fillStyle = colours.panel;
    pen.fillRect(0, top, width, row.height);
    if (row.kind === "rank") this.rank(row, top);
    if (row.kind === "stream") this.stream(row, top);
    if (row.kind === "thread") this.thread(row, top);
    if (row.kind === "gaps" || row.kind === "path") this.stretches(row, top);
  }

  // Compute covers communication, which covers copies: what is seen of communication is exposed.
  rank(row, top) {
    const { frame, pen, colours, view, width } = this;
    if (!frame) return;
    if (!frame.ranks.has(row.rank)) return this.words("…", 0, width, top, row.height, colours.soft);
    frame.texture?.draw(pen, colours, `rank ${row.rank}`, view, width, top, row.height);
    for (const category of frame.texture ? [0] : [2, 1, 0]) {
      for (const lane of this.run.lanesOf.get(row.rank) || []) this.ops(lane.lane, top, row.height, category, row.height >= 15);
    }
  }

  stream(row, top) {
    const { frame, pen, colours, view, width } = this;
    if (!frame) return;
    frame.texture?.draw(pen, colours, `lane ${row.lane.lane}`, view, width, top, row.height);
    for (const category of [2, 1, 0]) this.ops(row.lane.lane, top, row.height, category, true);
  }

  ops(lane, top, height, category, lettered) {
    const { frame, view, width } = this;
    const scale = width / view.length;
    for (let i = frame.places[lane]; i < frame.places[lane + 1]; i += 1) {
      if (frame.category[i] !== category) continue;
      const from = (frame.start_ns[i] - view.from) * scale;
      if (from > width) break;
      const to = from + frame.duration_ns[i] * scale;
      if (to < 0) continue;
      this.op(i, from, Math.max(to, from + 0.7), top, height, lettered);
      if (frame.op_id[i] === view.picked?.id && view.picked.kind === "op") this.marks.push([from, to, top, height]);
    }
  }

  op(i, from, to, top, height, lettered) {
    const { frame, pen, colours, view, width } = this;
    const strength = (this.matches && !this.matches[frame.name[i]]) || !this.isMeant(frame.category[i]) ? FAINT : 1;
    const wait = frame.wait_ns[i];
    const until = wait > 0 ? toX(view, width, frame.start_ns[i] + wait) : from;
    const fill = colours.op(frame.category[i], frame.classes[frame.class[i]]);
    const label = lettered ? frame.shorts[frame.name[i]] : null;
    drawOp(pen, { from, until, to, top, height, fill, label, strength }, width, colours);
  }

  // Whether operations of a category are what the finding is about, that the view is filtered by.
  isMeant(category) {
    const { kind, which } = this.subject || {};
    if (kind === "gaps") return false;
    if (kind === "ops") return which === (category === 0 ? "compute" : "memory");
    return kind === "waits" || kind === "transfers" ? category === 1 : true;
  }

  frameAround(from, to, top, height) {
    const { pen, colours, width } = this;
    if (to < 0 || from > width) return;
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 2;
    pen.strokeRect(from, top + 0.5, Math.max(to - from, 2), height - 1);
  }

  words(text, from, to, top, height, colour) {
    write(this.pen, text, from, to, top, height, this.width, colour);
  }

  wordsOfThin(text, top, height) {
    const { pen, width, colours, font } = this;
    pen.font = `9px ${font}`;
    this.words(text, 0, width, top, height, colours.soft);
    pen.font = `11px ${font}`;
  }

  thread(row, top) {
    const { pen, colours, view, width } = this;
    const frame = this.host.get(row.rank);
    if (!frame) return this.words("…", 0, width, top, DEPTH_HEIGHT, colours.soft);
    const scale = width / view.length;
    const { thread } = row.thread;
    pen.globalAlpha = 0.75;
    for (let i = 0; i < frame.block_thread.length; i += 1) {
      if (frame.block_thread[i] !== thread) continue;
      const from = ((frame.first + frame.block_at[i]) * frame.block_ns - view.from) * scale;
      if (from > width || from + frame.block_ns * scale < 0) continue;
      pen.fillStyle = colours.kinds[frame.block_kind[i]];
      const tall = Math.max(Math.min(frame.block_busy[i], 1) * (DEPTH_HEIGHT - 1), 1);
      pen.fillRect(from, top + (frame.block_depth[i] + 1) * DEPTH_HEIGHT - 1 - tall, Math.max(frame.block_ns * scale, 0.7), tall);
    }
    pen.globalAlpha = 1;
    for (let i = 0; i < frame.thread.length; i += 1) {
      if (frame.thread[i] !== thread) continue;
      const from = (frame.start_ns[i] - view.from) * scale;
      const to = from + frame.duration_ns[i] * scale;
      if (from > width || to < 0) continue;
      const y = top + frame.depth[i] * DEPTH_HEIGHT;
      if (y + DEPTH_HEIGHT < 0 || y > this.height) continue;
      pen.fillStyle = colours.kinds[frame.kind[i]];
      pen.globalAlpha = this.hostMatches && !this.hostMatches(frame.names[frame.name[i]]) ? FAINT : 1;
      pen.fillRect(from, y, Math.max(to - from - (to - from > 3 ? 0.6 : 0), 0.7), DEPTH_HEIGHT - 1);
      pen.globalAlpha = 1;
      if (frame.op_id[i] === view.picked?.id && view.picked.kind === "host") this.marks.push([from, to, y, DEPTH_HEIGHT - 1]);
      if (to - from > 34) this.words(frame.names[frame.name[i]], from, to, y, DEPTH_HEIGHT - 1, colours.on(colours.kinds[frame.kind[i]]));
    }
  }

  // No compute in the colour of their cause, the critical path in that of what it is.
  stretches(row, top) {
    const { pen, colours, width } = this;
    if (row.kind === "gaps" && this.looking(row.rank)) return this.wordsOfThin("looking for causes …", top, row.height);
    const frame = stretchesOf(this, row);
    if (!frame) return;
    const scale = width / this.view.length;
    const fills = frame.names.map((name) => (row.kind === "gaps" ? colours.cause(name) : colours.path(name)));
    const { kind, which } = this.subject || {};
    const faint = frame.names.map((name) => row.kind === "gaps" && kind && kind !== "steps" && !(kind === "gaps" && name === which));
    const [first, end] = frame.of.get(row.rank) || [0, 0];
    for (let i = first; i < end; i += 1) {
      const from = (frame.start_ns[i] - this.view.from) * scale;
      const to = from + frame.duration_ns[i] * scale;
      if (from > width || to < 0) continue;
      pen.globalAlpha = faint[frame.name[i]] ? FAINT : 1;
      drawStretch(pen, row.kind, from, to, top, row.height, fills[frame.name[i]]);
    }
    pen.globalAlpha = 1;
  }

  outside() {
    const { pen, view, width, height, colours } = this;
    pen.fillStyle = colours.page;
    const [left, right] = [toX(view, width, 0), toX(view, width, view.span)];
    if (left > 0) pen.fillRect(0, 0, left, height);
    if (right < width) pen.fillRect(right, 0, width - right, height);
  }

  // Where steps begin, if that is not everywhere.
  grid() {
    const { pen, view, width, height, colours, run } = this;
    const shown = run.steps.filter((step) => step.start_ns >= view.from && step.start_ns <= view.until);
    if (shown.length > width / 24) return;
    pen.fillStyle = colours.ink;
    pen.globalAlpha = 0.16;
    for (const step of shown) pen.fillRect(Math.round(toX(view, width, step.start_ns)), 0, 1, height);
    pen.globalAlpha = 1;
  }

  selected() {
    const { pen, view, width, height, colours } = this;
    pen.fillStyle = colours.accent;
    if (view.mark !== null) pen.fillRect(Math.round(toX(view, width, view.mark)), 0, 1, height);
    if (!view.selection) return;
    const from = toX(view, width, view.selection.from);
    const to = toX(view, width, view.selection.until);
    pen.globalAlpha = 0.13;
    pen.fillRect(from, 0, to - from, height);
    pen.globalAlpha = 0.8;
    pen.fillRect(from, 0, 1, height);
    pen.fillRect(to - 1, 0, 1, height);
    pen.globalAlpha = 1;
  }
}

