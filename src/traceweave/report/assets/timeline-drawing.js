// Paints one step of some ranks on a canvas: streams, collectives with their wait, time without compute by its cause, and the time axis.
// A scene holds what is shown: pen, width, view [from, to] in ns, the rows from `rows` and the colours.
const TraceweaveTimelineDrawing = (() => {
  "use strict";

  const ROLES = ["compute", "exposed-comm", "exposed-memory"];
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
  const LANE = 18;
  const GAP = 9;
  const HEAD = 22;
  const AXIS = 26;
  const RIGHT = 8;
  const { palette, unitOf } = TraceweaveCharts;

  // Room for the names of streams; on narrow screens pointing at an operation tells its stream.
  const gutterOf = (width) => (width < 560 ? 0 : 92);
  const innerOf = (width) => Math.max(width - gutterOf(width) - RIGHT, 1);
  const toX = ({ view, width }, ns) => gutterOf(width) + ((ns - view[0]) / (view[1] - view[0])) * innerOf(width);
  const toNs = ({ view, width }, x) => view[0] + ((x - gutterOf(width)) / innerOf(width)) * (view[1] - view[0]);

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

  function drawAxis(scene) {
    const { pen, colour, view, width, height } = scene;
    const raw = (view[1] - view[0]) / Math.max(innerOf(width) / 110, 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const every = [1, 2, 5, 10].find((one) => raw <= one * power) * power;
    const [size, unit] = unitOf(Math.max(Math.abs(view[1]), 1));
    const digits = Math.min(Math.max(0, -Math.floor(Math.log10(every / size) + 1e-9)), 6);
    pen.textAlign = "center";
    for (let at = Math.ceil(view[0] / every) * every; at <= view[1]; at += every) {
      const x = Math.round(toX(scene, at)) + 0.5;
      pen.fillStyle = colour("line");
      pen.fillRect(x, AXIS - 4, 1, height - AXIS);
      pen.fillStyle = colour("soft");
      const label = `${(at / size).toFixed(digits)} ${unit}`;
      pen.fillText(label, Math.min(Math.max(x, gutterOf(width) + 18), width - 30), 12);
    }
    pen.textAlign = "left";
  }

  function write({ pen, width }, label, from, to, top, shade) {
    const left = Math.max(from, gutterOf(width)) + 4;
    const room = Math.min(to, width - RIGHT) - left - 2;
    if (room < 30) return;
    const letters = Math.floor(room / 6.8);
    pen.fillStyle = shade;
    pen.fillText(label.length > letters ? `${label.slice(0, letters - 1)}…` : label, left, top + LANE / 2 + 0.5);
  }

  function drawOp(scene, { lane, top }, i, from, to) {
    const { pen, fills, letters, ink, names } = scene;
    const wait = lane.byOp.get(i)?.wait;
    const many = lane.many.get(i);
    const inset = many ? 3 : 0;
    const until = wait ? toX(scene, lane.start[i] + wait) : from;
    const end = to - from > 4 ? to - 0.6 : to;
    pen.fillStyle = fills[lane.category[i]];
    pen.globalAlpha = 0.35;
    if (until > from) pen.fillRect(from, top, until - from, LANE);
    pen.globalAlpha = many ? 0.75 : 1;
    if (end > until) pen.fillRect(until, top + inset, end - until, LANE - 2 * inset);
    pen.globalAlpha = 1;
    const label = many ? `${many} ops` : names[lane.name[i]];
    if (to - until > 40) write(scene, label, until, to, top, letters[lane.category[i]]);
    else if (to - from > 40) write(scene, label, from, until, top, ink);
  }

  function drawOps(scene, row) {
    const { lane } = row;
    let last = -1;
    for (let i = 0; i < lane.start.length; i += 1) {
      const from = toX(scene, lane.start[i]);
      const to = Math.max(toX(scene, lane.start[i] + lane.duration[i]), from + 0.8);
      if (to < gutterOf(scene.width) || from > scene.width || to <= last) continue;
      drawOp(scene, row, i, from, to);
      last = to - from < 1 ? to : -1;
    }
  }

  // Stretches without letters: no compute in the colour of their cause, the critical path in that of what it is.
  function drawStretches(scene, { kind, lane, top }) {
    const { pen, colour, causes, kinds } = scene;
    const of = kind === "gaps" ? lane.cause.map((i) => colourOf(causes[i])) : lane.kind.map((i) => PATH[kinds[i]]);
    for (let i = 0; i < lane.start.length; i += 1) {
      const from = toX(scene, lane.start[i]);
      const to = toX(scene, lane.start[i] + lane.duration[i]);
      if (to < gutterOf(scene.width) || from > scene.width) continue;
      pen.fillStyle = colour(of[i]) || colour("cause-unknown");
      pen.fillRect(from, top, Math.max(to - from, 0.8), GAP);
    }
  }

  function drawRow(scene, row, font) {
    const { pen, colour, width } = scene;
    pen.font = row.kind === "head" ? `600 ${font}` : font;
    pen.fillStyle = colour(row.kind === "head" ? "ink" : "soft");
    if (row.kind === "head" || gutterOf(width)) pen.fillText(row.label, 0, row.top + row.height / 2);
    if (row.kind === "head") return;
    pen.save();
    pen.beginPath();
    pen.rect(gutterOf(width), row.top, innerOf(width), row.height);
    pen.clip();
    pen.fillStyle = colour("panel");
    pen.fillRect(gutterOf(width), row.top, innerOf(width), row.height);
    if (row.kind !== "ops") drawStretches(scene, row);
    else drawOps(scene, row);
    pen.restore();
  }

  function paint(canvas, host, spec, view, rows, height) {
    const paper = document.documentElement.classList.contains("printing");
    const scale = Math.max(window.devicePixelRatio || 1, paper ? 2 : 1);
    const width = host.clientWidth;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const colour = palette(host);
    const [page, ink, fills] = [colour("page"), colour("ink"), ROLES.map(colour)];
    const letters = fills.map((fill) => (contrast(fill, page) > contrast(fill, ink) ? page : ink));
    const pen = canvas.getContext("2d");
    const font = `11px ${getComputedStyle(document.body).fontFamily}`;
    const scene = { pen, colour, ink, fills, letters, view, width, height, names: spec.names, causes: spec.causes, kinds: spec.kinds };
    pen.scale(scale, scale);
    pen.textBaseline = "middle";
    pen.font = font;
    drawAxis(scene);
    for (const row of rows) drawRow(scene, row, font);
  }

  return { EXPOSED, PATH, colourOf, gutterOf, innerOf, layout, paint, toNs, toX };
})();
