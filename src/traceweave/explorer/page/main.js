// Puts the page together: what is looked at (view), what the server said of it (data), and who draws it.
import { describe, show } from "./card.js";
import { Console } from "./console.js";
import { Colours } from "./colours.js";
import { Data, spans } from "./data.js";
import { Details } from "./details.js";
import { Drawer } from "./drawer.js";
import { Findings } from "./findings.js";
import { button, element, swatch } from "./elements.js";
import { Gutter } from "./gutter.js";
import { KEYS, listenToKeys, listenToPointer, listenToRuler, listenToWheel } from "./input.js";
import * as link from "./link.js";
import { timeOfDay } from "./moments.js";
import { Painter } from "./painter.js";
import { openInPerfetto } from "./perfetto.js";
import { deviceOp, find } from "./pointing.js";
import { layout } from "./rows.js";
import { drawRuler, Overview } from "./ruler.js";
import { Search } from "./search.js";
import { askColumns, askJson } from "./server.js";
import { Totals } from "./totals.js";
import { View } from "./view.js";

const { toNs } = TraceweaveTimelineView;
const { count, many, moment, text } = TraceweaveCharts;
const part = (id) => document.getElementById(id);
const FEW_RANKS = 8;
const AROUND = 10e6; // ns about a moment that is gone to
const ROUNDED = 1_000; // ns: times of day are written to the microsecond

class Page {
  constructor(run) {
    Object.assign(this, { run, frameAsked: 0, pointer: null, extras: { path: false } });
    this.view = new View(run);
    this.colours = new Colours();
    this.failed = (error) => this.say(error.message);
    this.data = new Data(run, this.view, () => this.arrived(), this.failed);
    this.canvas = part("lanes");
    this.stage = part("stage");
    this.painter = new Painter(this.canvas, this.colours);
    this.gutter = new Gutter(part("gutter"), this.view, run);
    this.overview = new Overview(part("overview"), this.view, this.colours);
    if (run.ranks.length <= FEW_RANKS) for (const { rank } of run.ranks) this.view.streams.add(rank);
    const picked = link.read(location.hash, this.view);
    this.build();
    this.listen();
    this.drawNow();
    this.askWhole();
    if (this.view.selection) this.changed("selection");
    if (picked) this.goByNumber(picked);
    const finding = link.finding(location.hash);
    if (finding !== null) {
      this.openFindings();
      this.findings.show(finding);
    }
    if (this.view.query) {
      this.drawer.show("console");
      this.console.ask();
    }
  }

  build() {
    const { view, run, colours, failed } = this;
    this.drawer = new Drawer(part("drawer"), { findings: "Findings", details: "Operation", totals: "Selection", console: "SQL" }, () => this.draw());
    this.details = new Details(this.drawer.pane("details"), view, (op) => this.go(op), failed);
    this.totals = new Totals(this.drawer.pane("totals"), view, run, colours, failed);
    this.search = new Search(part("search"), view, { go: (op) => this.go(op), goToTime: (time) => this.goToTime(time) }, failed);
    this.console = new Console(this.drawer.pane("console"), view, run, {
      goByNumber: (rank, id) => this.goByNumber({ kind: "op", rank, id }, true),
      goToTime: (ns) => {
        const from = Number(BigInt(ns) - BigInt(run.origin_ns));
        this.goToTime({ from, until: from });
      },
    });
    this.findings = new Findings(this.drawer.pane("findings"), view, { place: (place, row) => this.goToPlace(place, row), failed });
    part("actions").append(
      button("Findings", () => this.openFindings()),
      button("SQL", () => this.openConsole()),
      button("Open in Perfetto", () => this.openPerfetto(), { title: "Sends the selection, or what is in view, to ui.perfetto.dev in a new window" }),
      button("Critical path", (event) => this.togglePath(event.currentTarget), { "aria-pressed": "false" }),
      button("Copy link", () => this.copyLink()),
      button("?", () => part("keys").showModal(), { "aria-label": "Keys" }),
    );
    part("keys").append(
      element("h2", {}, "Keys and mouse"),
      element("dl", {}, ...KEYS.flatMap(([key, what]) => [element("dt", {}, key), element("dd", {}, what)])),
      button("Close", () => part("keys").close()),
    );
    this.tellLegend();
  }

  tellLegend() {
    const { colours } = this;
    const causes = (of) => Object.keys(of).map((cause) => element("li", {}, swatch(colours.cause(cause)), of[cause]));
    const parts = [["compute", colours.categories[0]], ["communication", colours.categories[1]], ["copies", colours.categories[2]]];
    part("legend").replaceChildren(...parts.map(([label, colour]) => element("li", {}, swatch(colour), label)), element("li", {}, "pale: waits for other ranks"), ...(this.view.streams.size ? [element("li", {}, "exposed:"), ...causes(this.run.causes.exposed), element("li", {}, "idle:"), ...causes(this.run.causes.idle)] : []));
  }

  // The chip that says what the view is filtered by, and ends it.
  tellFinding() {
    const { finding } = this.view;
    part("finding").hidden = !finding;
    part("finding").replaceChildren(...(finding ? [`Only: ${finding.title} `, button("✕", () => this.view.filter(null), { "aria-label": "Show everything" })] : []));
  }

  listen() {
    const { view, stage, canvas } = this;
    view.addEventListener("change", (event) => this.changed(event.detail));
    stage.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.colours.read();
      this.tellLegend();
      this.draw();
    });
    listenToWheel(stage, canvas, view);
    listenToPointer(stage, canvas, view, {
      point: (x, y) => this.point(x, y),
      leave: () => this.leave(),
      click: (x, y) => this.click(this.find(x, y)),
      open: (x, y) => this.open(this.find(x, y)),
    });
    listenToRuler(part("ruler"), view);
    listenToKeys(stage, view, () => this.pointer ?? undefined, {
      f: () => this.focus(),
      m: () => view.picked && view.select({ from: view.picked.start_ns, until: view.picked.start_ns + Math.max(view.picked.duration_ns, 1) }),
      n: () => this.walk(1),
      p: () => this.walk(-1),
      "/": () => part("search").querySelector("input").focus(),
      escape: () => this.letGo(),
      "?": () => part("keys").showModal(),
      say: () => this.say(`Shown: ${text(view.from, "duration")} to ${text(view.until, "duration")}`),
    });
  }

  changed(what) {
    const { view, drawer } = this;
    if (what === "rows") this.tellLegend();
    if (what === "time") this.leave(); // what the pointer was on has moved
    if (what === "picked" && view.picked) {
      drawer.show("details");
      this.details.show(view.picked);
    }
    if (what === "finding") {
      this.tellFinding();
      if (this.findings.rows) this.findings.tell();
    }
    if (what === "selection" && view.selection && this.drawer.open !== "findings") {
      drawer.show("totals");
      this.totals.show(view.selection);
    }
    clearTimeout(this.linking);
    this.linking = setTimeout(() => history.replaceState(null, "", link.write(view)), 150);
    this.draw();
  }

  // A block stands for what is too short to be seen: its stretch is selected, of its lane.
  click(found) {
    this.leave(); // the pane that opens tells more
    if (!found) return this.letGo();
    if (found.kind === "gaps" || found.kind === "path") return this.view.select({ from: Math.floor(found.start_ns), until: Math.ceil(found.start_ns + found.duration_ns), ranks: [found.rank] });
    if (found.kind !== "block") return this.view.pick(found);
    const lane = found.row.kind === "stream" ? { lane: found.row.lane.lane } : {};
    this.view.select({ from: found.from, until: found.from + found.length, ranks: [found.rank], ...lane });
  }

  // It is asked for when it is first wanted: the whole run has to be replayed.
  togglePath(pressed) {
    this.extras.path = !this.extras.path;
    pressed.setAttribute("aria-pressed", String(this.extras.path));
    if (this.extras.path && !this.data.path) this.say("The run is replayed for its critical path …");
    this.draw();
  }

  // Brings an operation into view and picks it.
  go(op) {
    const { view } = this;
    if (op.kind === "host") view.host.add(op.rank);
    view.reveal(op.start_ns, op.duration_ns);
    view.pick({ ...op });
    this.drawNow();
    const row = this.scene.rows.find((one) => one.rank === op.rank && (op.kind === "host" ? one.kind === "thread" : one.kind === "rank"));
    const { scrollTop, clientHeight } = this.stage;
    if (row && (row.top < scrollTop || row.top + row.height > scrollTop + clientHeight)) this.stage.scrollTop = row.top - clientHeight / 3;
  }

  // To a step, or to a moment, which is marked.
  goToTime({ from, until }) {
    const { view, run } = this;
    const told = (ns) => [`${moment(ns)} from the beginning`, timeOfDay(run, ns)].filter(Boolean).join(" · ");
    if (from < -ROUNDED || from > run.span_ns + ROUNDED) return this.say(`That is not in the run, which ends ${told(run.span_ns)}.`);
    view.mark = from;
    if (until > from) view.focus(from, until - from);
    else view.focus(from - AROUND / 2, AROUND);
    this.say(told(from));
  }

  async goByNumber({ kind, rank, id }, reveal = false) {
    try {
      const { columns } = await askJson("op", { kind, rank, id });
      const start = Number(BigInt(columns.start_ns) - BigInt(this.run.origin_ns));
      const op = { kind, rank, id, name: columns.name, what: columns.class, start_ns: start, duration_ns: columns.duration_ns };
      if (reveal) this.go(op);
      else this.view.pick(op);
    } catch (error) {
      this.failed(error);
    }
  }

  // To a neighbour of what is picked on its lane.
  walk(by) {
    const { frame } = this.scene;
    const { picked } = this.view;
    if (!frame || picked?.kind !== "op") return this.say("Pick an operation first; N and P go on from there.");
    const at = frame.op_id.indexOf(picked.id);
    const i = at + by;
    if (at < 0 || i < 0 || frame.lane[i] !== frame.lane[at]) return this.say("There is no further operation in view; move on or zoom out.");
    this.go({ ...deviceOp(frame, { rank: picked.rank }, i), row: undefined });
    this.say(`${frame.names[frame.name[i]]}, ${text(frame.duration_ns[i], "duration")}`);
  }

  async copyLink() {
    const address = location.href.split("#")[0] + link.write(this.view);
    history.replaceState(null, "", address);
    try {
      await navigator.clipboard.writeText(address);
      this.say("The link is copied. It opens this view while the server runs, on this machine.");
    } catch {
      this.say("The address of the page is the link to this view.");
    }
  }

  openFindings() {
    this.drawer.show("findings");
    this.findings.load();
  }

  // Where a finding shows best: its ranks are unfolded, as far as they are few.
  goToPlace({ rank, start_ns, duration_ns }, { ranks }) {
    const { view } = this;
    const shown = [rank, ...(ranks || [])].filter((one) => one !== null).slice(0, FEW_RANKS);
    for (const one of shown) view.streams.add(one);
    view.select({ from: start_ns, until: start_ns + Math.max(duration_ns, 1), ...(shown.length ? { ranks: [...new Set(shown)] } : {}) });
    view.focus(start_ns, Math.max(duration_ns, 1) * 3);
    this.drawNow();
    const row = this.scene.rows.find((one) => one.rank === rank);
    if (row) this.stage.scrollTop = row.top;
  }

  openConsole() {
    this.drawer.show("console");
    this.console.field.focus();
  }

  // The selection, else what is in view, of its ranks, else of all; host threads where they are unfolded.
  async openPerfetto() {
    const { view, run } = this;
    const { from, until, ranks } = view.selection || { from: view.from, until: view.until };
    const whose = ranks || run.ranks.map((one) => one.rank);
    const params = { from: Math.max(Math.floor(from), 0), until: Math.ceil(until), ranks: spans(whose), host: run.timeline === "cpu" || whose.some((rank) => view.host.has(rank)) ? 1 : 0 };
    this.say("The trace is written …");
    try {
      await openInPerfetto(run.name, params);
      this.say("Perfetto has the trace.");
    } catch (error) {
      this.failed(error);
    }
  }

  async askWhole() {
    try {
      const found = await askColumns("whole", { blocks: 1000 });
      this.overview.take(found);
      this.draw();
      if (found.pending) this.askWhole(); // the server takes its time
    } catch (error) {
      this.failed(error);
    }
  }

  arrived() {
    const { path } = this.data;
    if (path && !this.toldPath) {
      this.toldPath = true;
      const unfold = this.view.streams.size ? "" : " Unfold a rank to see it.";
      this.say(path.pieces ? `The critical path has ${count(path.pieces)} stretches.${unfold}` : "There is no critical path: runs of more than 1,000,000 operations are not replayed, nor what has no launches; see traceweave analyze replay_quality.");
    }
    this.draw();
  }

  draw() {
    this.frameAsked = this.frameAsked || requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    this.frameAsked = 0;
    const { view, run, data, stage } = this;
    const placed = layout(view, run, data.threads, stage.clientHeight, this.extras);
    part("sizer").style.height = `${placed.height}px`;
    const scroll = stage.scrollTop;
    const seen = placed.rows.filter((row) => row.top + row.height >= scroll - 200 && row.top <= scroll + stage.clientHeight + 200);
    const of = (...kinds) => [...new Set(seen.filter((row) => !kinds.length || kinds.includes(row.kind)).map((row) => row.rank))];
    const unfolded = of().filter((rank) => view.host.has(rank));
    data.need({ ranks: of(), unfolded, idle: of("gaps"), path: this.extras.path }, this.canvas.clientWidth);
    const { lanes: frame, host, gaps, path } = data;
    this.scene = { view, run, rows: placed.rows, scroll, frame, host, gaps, path, looking: (rank) => data.looking(rank), ...this.matching() };
    this.painter.paint(this.scene);
    this.gutter.draw(placed.rows, scroll, stage.clientHeight);
    drawRuler(part("ruler"), part("corner"), view, run, this.colours);
    this.overview.draw();
  }

  // Which names are searched for; the others are drawn faintly.
  matching() {
    const wanted = this.view.search.toLowerCase();
    if (!wanted) return {};
    const has = (name) => name.toLowerCase().includes(wanted);
    return { matches: this.data.lanes?.names.map(has), hostMatches: has };
  }

  find(x, y) {
    return find(this.scene, this.canvas.clientWidth, x, y);
  }

  point(x, y) {
    this.pointer = toNs(this.view, this.canvas.clientWidth, x);
    const found = this.find(x, y);
    if (!found) return this.leave();
    const box = this.canvas.getBoundingClientRect();
    show(part("card"), describe(found, this.colours), x + box.left, y + box.top, box.bottom);
  }

  leave() {
    part("card").hidden = true;
  }

  open(found) {
    if (found?.kind === "block") this.view.focus(found.from, found.length * 40);
    else if (found) this.view.focus(found.start_ns, Math.max(found.duration_ns, 1));
  }

  focus() {
    const { picked, selection } = this.view;
    if (picked) this.open(picked);
    else if (selection) this.view.focus(selection.from, selection.until - selection.from);
  }

  letGo() {
    this.leave();
    this.drawer.close();
    this.view.picked = null;
    this.view.mark = null;
    if (this.view.finding) this.view.filter(null);
    this.view.select(null);
  }

  say(words) {
    part("status").textContent = words;
  }
}

function prepare(run) {
  run.lanesOf = Map.groupBy(run.lanes, (lane) => lane.rank);
  run.rankOf = new Map(run.ranks.map((one) => [one.rank, one]));
  run.devices = Math.max(0, ...[...run.lanesOf.values()].map((lanes) => new Set(lanes.map((lane) => lane.device)).size));
  return run;
}

function tellFacts(run) {
  const gpus = [...new Set(run.ranks.map((one) => one.gpu_name).filter(Boolean))];
  const ops = run.lanes.reduce((sum, lane) => sum + lane.ops, 0);
  part("name").textContent = run.name;
  part("facts").textContent = [many(run.ranks.length, "rank"), gpus.join(", "), many(run.steps.length, run.steps.some((step) => step.is_inferred) ? "inferred step" : "step"), many(ops, "operation"), text(run.span_ns, "duration")].filter(Boolean).join(" · ");
  document.title = `${run.name} · traceweave`;
}

async function begin() {
  try {
    const run = prepare(await askJson("run"));
    tellFacts(run);
    window.traceweave = new Page(run);
  } catch (error) {
    part("status").textContent = error.message;
  }
}

begin();
