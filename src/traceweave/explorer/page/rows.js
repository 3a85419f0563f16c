// Which row lies where, from top to bottom: a row per rank, pinned ones first; of ranks that are unfolded also gaps, critical path, streams, threads.

const STREAM = 18;
const THIN = 9;
const DEPTH = 14;
const MOST_DEPTHS = 40;
const SHORT = { compute: "compute", communication: "comm", copies: "copies" };

export function layout(view, run, threads, room, extras) {
  const folded = foldedHeight(view, run, room);
  const rows = [];
  let y = 2;
  const add = (row, height, after = 1) => {
    rows.push({ ...row, top: y, height });
    y += height + after;
  };
  for (const rank of [...view.pinned, ...run.ranks.map((one) => one.rank).filter((one) => !view.pinned.has(one))]) {
    const open = view.streams.has(rank) || view.host.has(rank);
    add({ kind: "rank", rank }, open ? 14 : folded, open ? 2 : folded > 12 ? 2 : 1);
    if (view.streams.has(rank)) {
      if (extras.path) add({ kind: "path", rank, label: "critical path" }, THIN, 2);
      add({ kind: "gaps", rank, label: "no compute, by cause" }, THIN, 2);
      for (const lane of run.lanesOf.get(rank) || []) add({ kind: "stream", rank, lane, label: laneLabel(run, lane) }, STREAM, 2);
    }
    if (view.host.has(rank)) {
      for (const thread of threads.get(rank) || []) {
        const depths = Math.min(thread.depths, MOST_DEPTHS);
        add({ kind: "thread", rank, thread, label: threadLabel(thread) }, depths * DEPTH, 5);
      }
    }
    if (open) y += 4;
  }
  return { rows, height: y + 12, folded };
}

export const DEPTH_HEIGHT = DEPTH;

// All ranks at once if that leaves them readable.
function foldedHeight(view, run, room) {
  return Math.min(Math.max(Math.floor((room - 16) / Math.max(run.ranks.length, 1)) - 2, 11), 26);
}

function laneLabel(run, lane) {
  const device = run.devices > 1 && lane.device !== null ? `gpu ${lane.device} ` : "";
  return run.timeline === "gpu" ? `${device}stream ${lane.stream ?? "-"} · ${SHORT[lane.label]}` : `thread ${lane.stream ?? "-"} · ${SHORT[lane.label]}`;
}

const threadLabel = ({ tid, label }) => `${label ? `${label} · ` : ""}thread ${tid ?? "-"}`;

// The row at a height, if any.
export function rowAt(rows, y) {
  let [low, high] = [0, rows.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (y < rows[middle].top) high = middle - 1;
    else if (y >= rows[middle].top + rows[middle].height) low = middle + 1;
    else return rows[middle];
  }
  return null;
}
