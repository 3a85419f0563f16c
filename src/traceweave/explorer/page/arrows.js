// Arrows of what is picked: from the call that launched it to the operation, and from the rank that came last in a collective to
// the others, which waited for it until then.
import { DEPTH_HEIGHT } from "./rows.js";

const { toX } = TraceweaveTimelineView;

export function drawArrows(scene) {
  const { picked } = scene.view;
  if (!picked?.known) return;
  const places = new Places(scene);
  const { launch, launched, collectives } = picked.known;
  for (const one of launch) drawLaunch(scene, places.host(one), places.device(picked));
  for (const one of launched) drawLaunch(scene, places.host(picked), places.device(one));
  for (const { instance, members } of collectives) if (instance) drawCollective(scene, places, members, instance);
}

// Where operations lie on the canvas, if their row is there.
class Places {
  constructor(scene) {
    this.scene = scene;
    this.ranks = new Map();
    this.streams = new Map();
    this.threads = new Map();
    for (const row of scene.rows) {
      if (row.kind === "rank") this.ranks.set(row.rank, row);
      if (row.kind === "stream") this.streams.set(row.lane.lane, row);
      if (row.kind === "thread") this.threads.set(`${row.rank} ${row.thread.thread}`, row);
    }
  }

  spot(row, height, top, one) {
    const { view, width, scroll } = this.scene;
    return { from: toX(view, width, one.start_ns), to: toX(view, width, one.start_ns + one.duration_ns), top: top - scroll, height };
  }

  device(one) {
    const { frame } = this.scene;
    const i = frame ? frame.op_id.indexOf(one.id) : -1;
    const row = (i >= 0 && this.streams.get(frame.lane[i])) || this.ranks.get(one.rank);
    return row ? this.spot(row, row.height, row.top, one) : null;
  }

  host(one) {
    const frame = this.scene.host.get(one.rank);
    const i = frame ? frame.op_id.indexOf(one.id) : -1;
    const row = i >= 0 && this.threads.get(`${one.rank} ${frame.thread[i]}`);
    return row ? this.spot(row, DEPTH_HEIGHT - 1, row.top + frame.depth[i] * DEPTH_HEIGHT, one) : null;
  }
}

function drawLaunch({ pen, colours }, from, to) {
  if (!from || !to) return;
  const [x1, y1] = [from.from, from.top < to.top ? from.top + from.height : from.top];
  const [x2, y2] = [to.from, from.top < to.top ? to.top : to.top + to.height];
  const bend = Math.max(Math.min(Math.abs(x2 - x1) / 2, 120), 20);
  pen.strokeStyle = colours.accent;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
  pen.stroke();
  head(pen, colours.accent, x2, y2, 1, 0);
}

// A line down all its ranks when the last one came: from there, to those that waited. A buffered message had none.
function drawCollective({ pen, colours, view, width }, places, members, instance) {
  const last = members.find((one) => one.rank === instance.last_rank) ?? members.at(-1);
  const x = toX(view, width, last.start_ns);
  const spots = members.map((one) => places.device(one)).filter(Boolean);
  const waiting = members.filter((one) => one.wait_ns > 0).map((one) => places.device(one)).filter(Boolean);
  const own = places.device(last);
  if (!own || spots.length < 2) return;
  const middle = (spot) => spot.top + spot.height / 2;
  const heights = spots.map(middle);
  pen.strokeStyle = colours.ink;
  pen.lineWidth = 1;
  for (const spot of spots) if (spot.to > 0 && spot.from < width) pen.strokeRect(spot.from + 0.5, spot.top + 0.5, Math.max(spot.to - spot.from - 1, 1), spot.height - 1);
  if (Number(instance.waiting_ranks) === 0) return;
  pen.lineWidth = 1.5;
  pen.setLineDash(instance.last_is_known ? [] : [4, 3]);
  pen.beginPath();
  pen.moveTo(x, Math.min(...heights));
  pen.lineTo(x, Math.max(...heights));
  pen.stroke();
  pen.setLineDash([]);
  for (const spot of waiting) if (spot !== own && middle(spot) !== middle(own)) head(pen, colours.ink, x, middle(spot), 0, Math.sign(middle(spot) - middle(own)));
  pen.fillStyle = colours.of("caused");
  pen.beginPath();
  pen.arc(x, middle(own), 4.5, 0, 2 * Math.PI);
  pen.fill();
}

function head(pen, colour, x, y, dx, dy) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.moveTo(x, y);
  pen.lineTo(x - 6 * dx - 3.5 * dy, y - 6 * dy - 3.5 * dx);
  pen.lineTo(x - 6 * dx + 3.5 * dy, y - 6 * dy + 3.5 * dx);
  pen.fill();
}
