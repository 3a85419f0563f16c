// The pane of SQL: a query, its rows as a table or a chart; operations and times in the rows lead to the lanes.
import { button, element } from "./elements.js";
import { ask, latest } from "./server.js";

const { count, many, text } = TraceweaveCharts;
const MOST_SHOWN = 500;
const KINDS = ["table", "bars", "line", "points"];
const EXAMPLE = "FROM breakdown() ORDER BY rank, step";
const TIMES = /^(start|window_start|first_start|last_start|at)_ns$/;

export class Console {
  constructor(pane, view, run, acts) {
    Object.assign(this, { pane, view, run, acts, kind: "table" });
    this.page = crypto.randomUUID();
    this.field = element("textarea", { rows: "4", spellcheck: "false", "aria-label": "SQL", placeholder: EXAMPLE });
    this.field.value = view.query || EXAMPLE;
    this.told = element("span", { class: "soft", role: "status" });
    this.place = element("div", { class: "answer" });
    this.run_ = button("Run", () => this.ask(), { title: "Ctrl+Enter" });
    this.stop = button("Stop", () => this.asking.stop(), { disabled: true });
    this.kinds = element("span", { class: "choice", role: "group", "aria-label": "Shown as" }, ...KINDS.map((kind) => button(kind, () => this.choose(kind), { "aria-pressed": String(kind === "table") })));
    this.axes = element("span", {});
    pane.append(element("div", { class: "ask" }, this.field, element("div", { class: "tools" }, this.run_, this.stop, this.examples(), this.kinds, this.axes, this.told)), this.place);
    this.asking = latest((signal, sql) => ask("query", { page: this.page }, { method: "POST", body: sql, signal }));
    this.field.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.ask();
    });
  }

  examples() {
    const list = element("select", { "aria-label": "An analysis to begin with" }, new Option("Analyses …", ""));
    for (const [topic, names] of Map.groupBy(this.run.analyses, ([, topic]) => topic)) {
      list.append(element("optgroup", { label: topic }, ...names.map(([name]) => new Option(name, name))));
    }
    list.addEventListener("change", () => {
      if (list.value) this.field.value = `FROM ${list.value}()`;
      list.value = "";
      this.field.focus();
    });
    return list;
  }

  async ask() {
    const sql = this.field.value;
    Object.assign(this.view, { query: sql });
    this.view.changed("query");
    this.told.textContent = "…";
    this.stop.disabled = false;
    try {
      const response = await this.asking(sql);
      if (!response) return (this.told.textContent = "stopped");
      const found = await response.json();
      if (found.error) throw new Error(found.error);
      this.found = found;
      this.show();
    } catch (error) {
      this.place.replaceChildren(element("p", { class: "error" }, error.message));
      this.told.textContent = "";
    }
    this.stop.disabled = true;
  }

  choose(kind) {
    this.kind = kind;
    for (const one of this.kinds.children) one.setAttribute("aria-pressed", String(one.textContent === kind));
    if (this.found) this.show();
  }

  show() {
    const { rows, more, columns } = this.found;
    this.told.textContent = `${more ? "the first " : ""}${many(rows.length, "row")}`;
    this.axes.replaceChildren();
    if (this.kind === "table") return this.place.replaceChildren(this.table());
    const numbers = columns.map((_, i) => i).filter((i) => columns[i].number);
    if (!numbers.length || !rows.length) return this.place.replaceChildren(element("p", {}, "A chart needs rows and a column of numbers."));
    this.chart(numbers);
  }

  table() {
    const { columns, rows } = this.found;
    const rank = columns.findIndex((one) => one.name === "rank");
    const line = (row) => element("tr", {}, ...row.map((value, i) => element("td", { class: columns[i].number ? "num" : "" }, this.cell(row, i, rank))));
    const note = rows.length > MOST_SHOWN ? element("p", { class: "soft" }, `${MOST_SHOWN} of ${many(rows.length, "row")} are shown here; charts have all of them.`) : null;
    const head = columns.map((one) => element("th", { class: one.number ? "num" : "" }, one.name));
    return element("div", {}, note, element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows.slice(0, MOST_SHOWN).map(line))));
  }

  cell(row, i, rank) {
    const { name } = this.found.columns[i];
    const value = row[i];
    if (value === null) return element("span", { class: "soft" }, "-");
    if (/(^|_)op_id$/.test(name) && rank >= 0) return button(String(value), () => this.acts.goByNumber(row[rank], Number(value)), { class: "link" });
    if (TIMES.test(name)) return button(String(value), () => this.acts.goToTime(value), { class: "link" });
    const measured = typeof value === "number" && (name.endsWith("_ns") ? "duration" : name.endsWith("bytes") ? "bytes" : null);
    return measured ? element("span", { title: String(value) }, text(value, measured)) : String(value);
  }

  // The first column that is no measure along the axis, and the numbers that are chosen: at first the first one.
  async chart(numbers) {
    const { columns, rows } = this.found;
    const pick = (label, indices, chosen) => {
      const list = element("select", { "aria-label": label }, ...indices.map((i) => new Option(columns[i].name, i, false, i === chosen)));
      list.addEventListener("change", () => this.draw(Number(x.value), Number(y.value)));
      return list;
    };
    const every = columns.map((_, i) => i);
    const along = every.find((i) => columns[i].name === "rank" || columns[i].name === "step" || !columns[i].number) ?? 0;
    const x = pick("Across", every, along);
    const y = pick("Upward", numbers, numbers.find((i) => i !== along && !["rank", "step"].includes(columns[i].name)) ?? numbers[0]);
    this.axes.replaceChildren(" across ", x, " upward ", y);
    this.place.replaceChildren(element("div", { class: "drawing" }));
    await loadCharts();
    if (rows === this.found.rows) this.draw(Number(x.value), Number(y.value));
  }

  draw(x, y) {
    const { columns, rows } = this.found;
    const place = this.place.querySelector(".drawing");
    const colour = TraceweaveCharts.palette(document.documentElement);
    const measure = columns[y].name.endsWith("_ns") ? "duration" : columns[y].name.endsWith("bytes") ? "bytes" : null;
    const write = (value) => (measure ? text(value, measure) : count(Number(value)));
    const values = rows.map((row) => (row[y] === null ? null : Number(row[y])));
    const scatter = this.kind === "points" && columns[x].number;
    const option = TraceweaveCharts.frame(colour);
    Object.assign(option.grid, { top: 12, bottom: 8 });
    option.legend.show = false;
    option.tooltip.formatter = (point) => TraceweaveCharts.tip(String(rows[point.dataIndex][x]), [[columns[y].name, write(rows[point.dataIndex][y]), colour("compute")]]);
    option.xAxis = scatter ? { type: "value", scale: true, axisLabel: { color: colour("soft") }, splitLine: { lineStyle: { color: colour("line") } } } : TraceweaveCharts.categoryAxis({ axis: "" }, rows.map((row) => String(row[x])), colour);
    option.yAxis = { type: "value", axisLabel: { color: colour("soft"), formatter: write }, splitLine: { lineStyle: { color: colour("line") } } };
    const kind = { bars: "bar", line: "line", points: "scatter" }[this.kind];
    option.series = [{ type: kind, data: scatter ? rows.map((row, i) => [Number(row[x]), values[i]]) : values, symbolSize: 5, showSymbol: kind === "scatter", itemStyle: { color: colour("compute") }, lineStyle: { width: 1.5 }, barMaxWidth: 40, large: true }];
    this.drawn?.dispose();
    this.drawn = echarts.init(place, null, { renderer: "canvas" });
    this.drawn.setOption(option);
  }
}

let charts = null;

function loadCharts() {
  charts ??= new Promise((resolve, reject) => {
    const script = element("script", { src: "shared/vendor/echarts.min.js", onload: resolve, onerror: reject });
    document.head.append(script);
  });
  return charts;
}
