// The pane of one operation: its columns, the call that launched it, its collective with all ranks, who came last.
import { button, element, table } from "./elements.js";
import { timeOfDay } from "./moments.js";
import { askJson, latest } from "./server.js";

const { moment, text } = TraceweaveCharts;
const FIRST = ["name", "class", "category", "kind", "rank", "device", "stream", "step", "duration_ns", "start_ns", "end_ns", "launch_call"];

export class Details {
  constructor(pane, view, go, failed) {
    Object.assign(this, { pane, view, go, failed });
    this.asking = latest((signal, params) => askJson("op", params, { signal }));
  }

  // Shows an operation and keeps with it what the arrows are drawn from.
  async show(picked) {
    this.pane.replaceChildren(heading(picked), element("p", { class: "soft" }, "…"));
    try {
      const found = await this.asking({ kind: picked.kind, rank: picked.rank, id: picked.id });
      if (!found || this.view.picked !== picked) return;
      picked.known = found;
      this.pane.replaceChildren(heading(picked), element("div", { class: "about" }, this.facts(picked, found), element("div", {}, ...this.ways(found), ...this.stack(found), ...found.collectives.flatMap((one) => this.collective(picked, one)))));
      this.view.changed("known");
    } catch (error) {
      this.failed(error);
    }
  }

  facts(picked, { columns }) {
    const known = Object.keys(columns).filter((key) => key !== "name");
    const first = FIRST.filter((key) => known.includes(key));
    const rest = known.filter((key) => !first.includes(key));
    const clock = timeOfDay(this.view.run, picked.start_ns);
    const lines = [["from the beginning", moment(picked.start_ns)], ...(clock ? [["time of day, UTC", clock]] : []), ...[...first, ...rest].map((key) => [key.replace(/^args\./, ""), tell(key, columns[key])])];
    return element("dl", { class: "facts" }, ...lines.map(([key, value]) => element("div", {}, element("dt", {}, key), element("dd", {}, value))));
  }

  ways({ launch, launched }) {
    const way = (kind, label) => (one) => element("p", {}, label, this.link(kind, one, one.name), ` ${text(one.duration_ns, "duration")}`);
    return [...launch.map(way("host", "launched by ")), ...launched.map(way("op", "launches "))];
  }

  // Where in the program it is: each line leads to the host's threads.
  stack({ stack }) {
    if (!stack.length) return [];
    const rows = stack.map((one) => [this.link("host", one, one.name), one.kind, text(one.duration_ns, "duration")]);
    return [table("The host was in, innermost first", ["what", "kind", "length"], rows, [2])];
  }

  link(kind, one, label) {
    return button(label, () => this.go({ ...one, kind }), { class: "link" });
  }

  collective(picked, { call, instance, members }) {
    if (!instance) return [element("p", {}, `${call.op}: not matched with other ranks (${call.match})`)];
    const what = `${instance.op} of ${instance.ranks_seen} ranks${call.group_name ? ` in ${call.group_name}` : ""}${call.bytes ? `, ${text(Number(call.bytes), "bytes")}` : ""}`;
    const told = `${what}: ${instance.is_buffered ? BUFFERED : waited(picked, instance, members)}.`;
    const rows = members.map((one) => [
      this.link("op", { ...one, name: picked.name }, `rank ${one.rank}`),
      text(one.start_ns - members[0].start_ns, "duration"),
      text(one.wait_ns, "duration"),
      text(one.duration_ns, "duration"),
    ]);
    return [element("p", {}, told), table("Ranks, in the order of arrival", ["rank", "after the first", "waited", "length"], rows, [1, 2, 3])];
  }
}

const BUFFERED = "the send was over before the receive began: it was buffered, and no rank waited";

function waited({ rank }, instance, members) {
  const own = members.find((one) => one.rank === rank);
  const transfer = `the transfer took ${text(Number(instance.transfer_ns), "duration")}`;
  if (Number(instance.waiting_ranks) === 0) return `no rank waited for another; ${transfer}`;
  const sure = instance.last_is_known ? "" : ", which is within what the clocks can tell";
  return `rank ${instance.last_rank} came last${sure}; rank ${rank} waited ${text(own?.wait_ns ?? 0, "duration")}, ${transfer}`;
}

const heading = (picked) => element("h2", {}, picked.name || picked.kind);

function tell(key, value) {
  if (key.endsWith("duration_ns")) return text(Number(value), "duration");
  if (key === "bytes") return `${text(Number(value), "bytes")} (${value})`;
  return String(value);
}
