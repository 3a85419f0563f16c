// The pane of a stretch of time: what ran in it by class, by lane, and the kernels that took the most.
import { button, element, swatch, table } from "./elements.js";
import { spans } from "./data.js";
import { askJson, latest } from "./server.js";

const { count, moment, text } = TraceweaveCharts;
const SOON = 120; // ms after the last change
const CODES = { compute: 0, communication: 1, memory: 2 };

export class Totals {
  constructor(pane, view, run, colours, failed) {
    Object.assign(this, { pane, view, run, colours, failed });
    this.asking = latest((signal, params) => askJson("totals", params, { signal }));
  }

  show(selection) {
    clearTimeout(this.soon);
    this.soon = setTimeout(() => this.ask(selection), SOON);
  }

  async ask(selection) {
    const ranks = selection.ranks || this.run.ranks.map((one) => one.rank);
    const params = { from: selection.from, until: selection.until, ranks: spans(ranks), lane: selection.lane ?? -1 };
    if (!this.pane.childElementCount) this.pane.append(element("p", { class: "soft" }, "…"));
    try {
      const found = await this.asking(params);
      const idle = found && (await askJson("idle", params));
      if (idle) this.pane.replaceChildren(...this.tell(selection, ranks, found, idle));
    } catch (error) {
      this.failed(error);
    }
  }

  // To what is selected now: the totals may be those of what was selected on the way there.
  zoom({ from, until }) {
    this.view.focus(from, until - from);
  }

  tell(selection, ranks, { classes, lanes, names, names_in_all: all }, idle) {
    const length = selection.until - selection.from;
    const whole = length * ranks.length;
    const share = (ns) => text(ns / whole, "fraction");
    const whose = selection.lane === undefined ? (ranks.length === 1 ? `rank ${ranks[0]}` : `${ranks.length} ranks`) : `a lane of rank ${ranks[0]}`;
    const head = element(
      "h2",
      {},
      `${text(length, "duration")} of ${whose}, from ${moment(selection.from)} `,
      button("zoom to it", () => this.zoom(this.view.selection ?? selection)),
    );
    const dot = (one) => element("span", {}, swatch(this.colours.op(CODES[one.category], one.class)), one.class ?? one.category);
    const times = (one) => [text(one.busy_ns, "duration"), share(one.busy_ns), count(one.ops), text(one.longest_ns, "duration")];
    const heads = ["time", "of the time", "ops", "longest"];
    const right = [1, 2, 3, 4];
    const beside = names[0]?.of_ranks ? ranks : [];
    const shownLanes = [...lanes].sort((a, b) => a.lane - b.lane);
    const laneOf = (one) => this.run.lanes[one.lane];
    const shareOfRank = (one) => text(one.busy_ns / length, "fraction");
    return [
      head,
      element(
        "div",
        { class: "tables" },
        table("By class", ["class", ...heads], classes.map((one) => [dot(one), ...times(one)]), right),
        table(
          all > names.length ? `By name, ${names.length} of ${all}` : "By name",
          ["name", ...heads, ...beside.map((rank) => `rank ${rank}`)],
          names.map((one) => [one.name, ...times(one), ...beside.map((_, i) => text(one.of_ranks[i], "duration"))]),
          [...right, ...beside.map((_, i) => right.length + 1 + i)],
        ),
        this.idle(length, idle),
        table(
          "By rank and stream",
          ["rank", "stream", "category", "time", "of its time", "ops"],
          shownLanes.map((one) => [String(laneOf(one).rank), String(laneOf(one).stream ?? "-"), dot({ category: one.category }), text(one.busy_ns, "duration"), shareOfRank(one), count(one.ops)]),
          [0, 1, 3, 4, 5],
        ),
      ),
    ];
  }

  // Of the ranks that are unfolded: those of the others were not asked for.
  idle(length, rows) {
    if (!rows.length) return element("p", { class: "soft idle" }, "Unfold a rank to see why it did not compute.");
    const ranks = spans(new Set(rows.flatMap((one) => one.ranks)));
    const cause = (one) => element("span", {}, swatch(this.colours.cause(one.cause)), one.cause);
    return table(`No compute, by cause, rank ${ranks}`, ["cause", "time", "stretches", "longest"], rows.map((one) => [cause(one), text(one.idle_ns, "duration"), count(one.gaps), text(one.longest_ns, "duration")]), [1, 2, 3]);
  }
}
