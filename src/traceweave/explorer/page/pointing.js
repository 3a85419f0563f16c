// What lies at a point of the canvas: an operation, a block of them, a gap or a stretch of the critical path.
import { stretchesOf } from "./painter.js";
import { DEPTH_HEIGHT, rowAt } from "./rows.js";

const { EXPOSED, toNs } = TraceweaveTimelineView;

const NEAR = 2; // pixels

export function find(scene, width, x, y) {
  const row = rowAt(scene.rows, y + scene.scroll);
  if (!row) return null;
  const [low, high] = [toNs(scene.view, width, x - NEAR), toNs(scene.view, width, x + NEAR)];
  const at = toNs(scene.view, width, x);
  if (row.kind === "rank") return ofLanes(scene, row, scene.run.lanesOf.get(row.rank) || [], low, high) || block(scene, row, "ranks", row.rank, at);
  if (row.kind === "stream") return ofLanes(scene, row, [row.lane], low, high) || block(scene, row, "lanes", row.lane.lane, at);
  if (row.kind === "thread") return ofThread(scene, row, y + scene.scroll - row.top, low, high);
  return ofStretches(stretchesOf(scene, row), row, low, high);
}

function ofStretches(frame, row, low, high) {
  let best = null;
  const [first, end] = frame?.of.get(row.rank) || [0, 0];
  for (let i = first; i < end; i += 1) {
    if (frame.start_ns[i] <= high && frame.start_ns[i] + frame.duration_ns[i] >= low) best = i;
  }
  if (best === null) return null;
  const said = frame.names[frame.name[best]];
  const exposed = said.startsWith(EXPOSED);
  const name = exposed ? said : `${row.kind === "gaps" ? "idle" : "critical path"}: ${said}`;
  const told = exposed || row.kind !== "gaps" ? "sort" : "host_op";
  return { row, kind: row.kind, rank: row.rank, name, start_ns: frame.start_ns[best], duration_ns: frame.duration_ns[best], [told]: frame.whats[frame.what[best]] };
}

// Of several at one place the one that is drawn on top: compute, and the last that began.
function ofLanes({ frame }, row, lanes, low, high) {
  let best = null;
  for (const { lane } of frame ? lanes : []) {
    for (let i = frame.places[lane]; i < frame.places[lane + 1]; i += 1) {
      if (frame.start_ns[i] > high) break;
      if (frame.start_ns[i] + frame.duration_ns[i] < low) continue;
      if (best === null || frame.category[i] <= frame.category[best]) best = i;
    }
  }
  return best === null ? null : deviceOp(frame, row, best);
}

export function deviceOp(frame, row, i) {
  return {
    row,
    kind: "op",
    index: i,
    id: frame.op_id[i],
    rank: row.rank,
    start_ns: frame.start_ns[i],
    duration_ns: frame.duration_ns[i],
    name: frame.names[frame.name[i]],
    what: frame.classes[frame.class[i]],
    wait_ns: frame.wait_ns[i],
    category: frame.category[i],
  };
}

function ofThread({ host }, row, y, low, high) {
  const frame = host.get(row.rank);
  if (!frame) return null;
  const depth = Math.floor(y / DEPTH_HEIGHT);
  for (let i = frame.thread.length - 1; i >= 0; i -= 1) {
    if (frame.thread[i] !== row.thread.thread || frame.depth[i] !== depth) continue;
    if (frame.start_ns[i] > high || frame.start_ns[i] + frame.duration_ns[i] < low) continue;
    return { row, kind: "host", index: i, id: frame.op_id[i], rank: row.rank, start_ns: frame.start_ns[i], duration_ns: frame.duration_ns[i], name: frame.names[frame.name[i]] };
  }
  return null;
}

function block({ frame }, row, strips, key, at) {
  const found = frame?.texture?.at(frame.texture[strips], key, at);
  return found && { row, kind: "block", rank: row.rank, ...found };
}
