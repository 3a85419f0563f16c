// What the server said of the stretch that is looked at, and of some more around it; asks for more when it no longer suffices.
import { askColumns, askJson, latest } from "./server.js";
import { Texture } from "./texture.js";

const MARGIN = 0.3; // of the view, on either side
const PIXELS = 1.5; // to a block

export class Data {
  constructor(run, view, arrived, failed) {
    Object.assign(this, { run, view, arrived, failed });
    this.lanes = null;
    this.host = new Map();
    this.gaps = null;
    this.path = null;
    this.threads = new Map();
    this.coming = new Map();
    this.refused = new Set();
    this.hurry = new Map();
    this.found = new Set(); // ranks whose gaps are
  }

  // Makes sure that what is in view is there or on its way: these ranks, the threads of some, the gaps of some, the path.
  need({ ranks, unfolded, idle, path }, width) {
    this.width = Math.max(width, 100);
    if (ranks.length && !this.suffices(this.lanes, ranks)) this.fetch("lanes", this.wanted("lanes", ranks), (found) => this.takeLanes(found, ranks));
    if (idle.length && !this.suffices(this.gaps, idle)) this.fetch("gaps", this.wanted("gaps", idle), (found) => (this.gaps = stretches(found, idle)));
    const missing = idle.find((rank) => this.gaps?.missing.includes(rank) && !this.found.has(rank));
    if (missing !== undefined) this.findGaps(missing);
    // the run is replayed for its path, which is not given up
    const replaying = this.coming.has("path") && !this.refused.has("path");
    if (path && ranks.length && !replaying && !this.suffices(this.path, ranks)) this.fetch("path", this.wanted("path", ranks), (found) => (this.path = stretches(found, ranks)));
    for (const rank of unfolded) {
      if (!this.threads.has(rank)) this.fetchThreads(rank);
      else if (!this.suffices(this.host.get(rank), [rank])) this.fetch(`host ${rank}`, this.wanted("host", [rank]), (found) => this.host.set(rank, prepare(found, [rank])));
    }
  }

  suffices(frame, ranks) {
    if (!frame || frame.old) return false;
    const [from, until] = [Math.max(this.view.from, 0), Math.min(this.view.until, this.view.span)];
    const covered = frame.from_ns <= from && frame.until_ns >= until && ranks.every((rank) => frame.ranks.has(rank));
    return covered && (frame.whole || frame.look === this.look);
  }

  // Views of one look have blocks of one size.
  get look() {
    return Math.ceil(Math.log2(this.view.length / this.width));
  }

  wanted(path, ranks) {
    const room = MARGIN * this.view.length;
    const from = Math.max(Math.floor(this.view.from - room), 0);
    const until = Math.max(Math.min(Math.ceil(this.view.until + room), this.view.span + 1), from + 1);
    const blocks = Math.ceil((until - from) / 2 ** this.look / PIXELS);
    const whose = path === "host" ? { rank: ranks[0] } : { ranks: spans(ranks) };
    const key = `${from}-${until} ${this.look} ${spans(ranks)}`;
    // what came blurred, or of some ranks, is asked for again, with the patience to have it all
    const partly = path === "lanes" && this.lanes?.key === key && (this.lanes.blurred || this.lanes.pending.length);
    const patient = partly ? { patient: 1 } : {};
    return { path, look: this.look, key, params: { from, until, blocks, ...whose, ...patient } };
  }

  async fetch(name, wanted, take) {
    if (this.coming.get(name) === wanted.key) return;
    this.coming.set(name, wanted.key);
    if (!this.hurry.has(name)) this.hurry.set(name, latest((signal, path, params) => askColumns(path, params, { signal })));
    const found = await this.attempt(() => this.hurry.get(name)(wanted.path, wanted.params));
    if (found === undefined) return this.refused.add(name); // the same is not asked again
    if (this.coming.get(name) === wanted.key) this.coming.delete(name);
    if (!found) return;
    Object.assign(found, { look: wanted.look, key: wanted.key, old: found.blurred });
    take(found);
    this.arrived();
  }

  async fetchThreads(rank) {
    if (this.coming.has(`threads ${rank}`)) return;
    this.coming.set(`threads ${rank}`, "");
    const found = await this.attempt(() => askJson("threads", { rank }));
    if (!found) return;
    this.threads.set(rank, found);
    this.coming.delete(`threads ${rank}`);
    this.arrived();
  }

  // Takes its time, so one rank after the other is asked for, and none given up.
  async findGaps(rank) {
    if (this.coming.has("find-gaps")) return;
    this.coming.set("find-gaps", "");
    const found = await this.attempt(() => askJson("find-gaps", { rank }));
    if (!found) return this.refused.add("find-gaps");
    this.coming.delete("find-gaps");
    this.found.add(rank);
    this.gaps.old = true;
    this.arrived();
  }

  // Whether it is not known yet when a rank was idle.
  looking(rank) {
    const shown = this.gaps?.ranks.has(rank) && !this.gaps.missing.includes(rank);
    return !shown && !this.refused.has("find-gaps") && !this.refused.has("gaps");
  }

  async attempt(asking) {
    try {
      return await asking();
    } catch (error) {
      this.failed(error);
      return undefined;
    }
  }

  takeLanes(found, ranks) {
    this.lanes = prepare(found, ranks);
    this.lanes.places = placesOf(this.lanes.lane, this.run.lanes.length);
    this.lanes.texture = found.block_lane.length ? new Texture(this.lanes, this.run) : null;
    if (found.pending.length) {
      this.lanes.ranks = new Set(ranks.filter((rank) => !found.pending.includes(rank)));
    }
  }
}

function prepare(frame, ranks) {
  frame.ranks = new Set(ranks);
  frame.first = Math.floor(frame.from_ns / frame.block_ns); // of the blocks
  frame.whole = !(frame.block_lane || frame.block_thread).length && !frame.pending?.length;
  return frame;
}

// Of gaps and the path it depends on the look what is seen. `of` has where those of a rank begin and end.
function stretches(frame, ranks) {
  frame.ranks = new Set(ranks);
  frame.whole = false;
  frame.of = new Map();
  frame.rank.forEach((rank, i) => frame.of.set(rank, [frame.of.get(rank)?.[0] ?? i, i + 1]));
  return frame;
}

// Where the operations of each lane begin and end in a frame, which has them by lane.
function placesOf(lane, lanes) {
  const places = new Int32Array(lanes + 1);
  for (const one of lane) places[one + 1] += 1;
  for (let i = 0; i < lanes; i += 1) places[i + 1] += places[i];
  return places;
}

// [0, 1, 2, 5] as 0-2,5
export function spans(numbers) {
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(",");
}
