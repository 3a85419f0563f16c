// Paints one step of some ranks on a canvas: streams, collectives with their wait, time without compute by its cause, and the ruler.
const TraceweaveTimelineDrawing = (() => {
  "use strict";

  const LANE = 18;
  const GAP = 9;
  const HEAD = 22;
  const AXIS = 26;
  const RIGHT = 8;
  const { Colours, drawOp, drawStretch, drawTicks, penOf, toX } = TraceweaveTimelineView;

  // Room for the names of streams; on narrow screens pointing at an operation tells its stream.
  const gutterOf = (width) => (width < 560 ? 0 : 92);
  const innerOf = (width) => Math.max(width - gutterOf(width) - RIGHT, 1);

  // Which row of which rank lies where, from top to bottom.
  function layout(ranks, step, shown) {
    const rows = [];
    let y = AXIS;
    for (const { rank, why } of ranks) {
      if (!shown.has(rank)) continue;
      rows.push({ kind: "head", top: y, height: HEAD, label: why ? `Rank ${rank} · ${why}` : `Rank ${rank}` });
      y += HEAD;
      for (const lane of step.path.filter((one) => one.rank === rank)) {
        rows.push({ kind: "path", top: y, height: GAP, label: "critical path", lane });
        y += GAP + 3;
      }
      for (const lane of step.gaps.filter((one) => one.rank === rank)) {
        rows.push({ kind: "gaps", top: y, height: GAP, label: "no compute", lane });
        y += GAP + 3;
      }
      for (const lane of step.lanes.filter((one) => one.rank === rank)) {
        rows.push({ kind: "ops", top: y, height: LANE, label: lane.label, lane });
        y += LANE + 2;
      }
      y += 8;
    }
    return { rows, height: y };
  }

  function drawOps({ pen, width, view, spec, colours }, { lane, top }) {
    let last = -1;
    for (let i = 0; i < lane.start.length; i += 1) {
      const from = toX(view, width, lane.start[i]);
      const to = Math.max(toX(view, width, lane.start[i] + lane.duration[i]), from + 0.8);
      if (to < 0 || from > width || to <= last) continue;
      const many = lane.many.get(i);
      const wait = lane.byOp.get(i)?.wait;
      const until = wait ? toX(view, width, lane.start[i] + wait) : from;
      const place = many ? { top: top + 3, height: LANE - 6, strength: 0.75 } : { top, height: LANE };
      const label = many ? `${many} ops` : spec.names[lane.name[i]];
      const fill = lane.unsplit.has(i) ? colours.unsplit : colours.categories[lane.category[i]];
      drawOp(pen, { from, until, to, ...place, fill, label }, width, colours);
      last = to - from < 1 ? to : -1;
    }
  }

  // No compute in the colour of their cause, the critical path in that of what it is.
  function drawStretches({ pen, width, view, spec, colours }, { kind, lane, top }) {
    const fills = kind === "gaps" ? lane.cause.map((i) => colours.cause(spec.causes[i])) : lane.kind.map((i) => colours.path(spec.kinds[i]));
    for (let i = 0; i < lane.start.length; i += 1) {
      const from = toX(view, width, lane.start[i]);
      const to = toX(view, width, lane.start[i] + lane.duration[i]);
      if (to >= 0 && from <= width) drawStretch(pen, kind, from, to, top, GAP, fills[i]);
    }
  }

  function drawRow(scene, row, gutter) {
    const { pen, colours, width, font } = scene;
    const isHead = row.kind === "head";
    pen.font = isHead ? `600 ${font}` : font;
    pen.fillStyle = isHead ? colours.ink : colours.soft;
    if (isHead || gutter) pen.fillText(row.label, -gutter, row.top + row.height / 2);
    if (isHead) return;
    pen.save();
    pen.beginPath();
    pen.rect(0, row.top, width, row.height);
    pen.clip();
    pen.fillStyle = colours.panel;
    pen.fillRect(0, row.top, width, row.height);
    if (row.kind === "ops") drawOps(scene, row);
    else drawStretches(scene, row);
    pen.restore();
  }

  // The canvas fills its host, whose height is that of the rows. All but labels lies right of the gutter: there x is 0.
  function paint(canvas, host, spec, view, rows) {
    const paper = document.documentElement.classList.contains("printing");
    const { pen, width, height } = penOf(canvas, paper ? 2 : 1);
    const colours = new Colours(host);
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const gutter = gutterOf(width);
    const scene = { pen, colours, font, view, width: innerOf(width), spec };
    pen.translate(gutter, 0);
    pen.font = font;
    const base = drawTicks(pen, view, scene.width, AXIS, height, colours);
    if (gutter) pen.fillText(base, -gutter, AXIS / 2 + 0.5);
    for (const row of rows) drawRow(scene, row, gutter);
  }

  return { gutterOf, innerOf, layout, paint };
})();
