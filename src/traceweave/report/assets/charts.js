// From a chart of the page's data (see the `chart` dictionaries of report/sections) to an ECharts option.
// Times arrive as integer nanoseconds, shares as fractions; units are chosen here, once per chart.
const TraceweaveCharts = (() => {
  "use strict";

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]];
  const SIZES = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
  const DIGITS = 3;
  // From no colour to the full one is a quarter at least, so that a few percent or a rounded number look like what they are.
  const FAR = 0.25;
  const PERCENT = new Intl.NumberFormat("en", { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });

  // What is told by a pattern, for those who cannot tell it by its colour: lines across it, of this angle, width and distance.
  const LINES = { "exposed-wait": [Math.PI / 4, 2, 5], "exposed-unsplit": [Math.PI / 2, 2, 4] };

  function fill(role, colour) {
    if (!LINES[role]) return { color: colour(role) };
    const [rotation, width, apart] = LINES[role];
    return { color: colour(role), decal: { symbol: "rect", color: colour("exposed-comm"), dashArrayX: [1, 0], dashArrayY: [width, apart], rotation } };
  }

  const swatch = (role, colour) => colour(`${role}-swatch`) || colour(role);

  function palette(element) {
    const style = getComputedStyle(element);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  }

  // Numbers are written as words.py writes them in sentences; the numbers of an axis are round and need no zeros at the end.
  function text(value, measure) {
    if (value === null || value === undefined) return "-";
    if (measure === "fraction") return percent(value);
    if (measure === "ratio") return `${plain(value)}x`;
    return quantity(value, measure === "bytes" ? SIZES : UNITS);
  }

  function tick(value, measure) {
    return text(value, measure).replace(/(\.\d*?)0+(?= )/, "$1").replace(/\.(?= )/, "");
  }

  function quantity(value, units) {
    const [size, unit] = units.find(([one]) => Math.abs(value) >= one * (1 - 0.5 * 10 ** -DIGITS)) || units.at(-1);
    const whole = size === 1 && Number.isInteger(value);
    return `${significant(value / size, whole ? 1 : DIGITS)} ${unit}`;
  }

  function significant(value, digits) {
    const zeros = digits > 1 ? { minimumSignificantDigits: digits } : {};
    const kept = Math.abs(value) < 10 ** digits ? { ...zeros, maximumSignificantDigits: digits } : { maximumFractionDigits: 0 };
    return value === 0 ? "0" : value.toLocaleString("en", kept);
  }

  function plain(value) {
    return significant(value, Number.isInteger(value) ? 1 : DIGITS).replace(/(\..*?)0+$/, "$1").replace(/\.$/, "");
  }

  const count = (value) => value.toLocaleString("en");

  const many = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

  // A moment of a run, to the nanosecond: seconds from its beginning.
  const moment = (ns) => `${(ns / 1e9).toFixed(9)} s`;

  // 0.0% and 100.0% only for what is exactly that.
  function percent(value) {
    if (value && Math.abs(value) < 0.0005) return value > 0 ? "<0.1%" : ">-0.1%";
    if (Math.abs(value) >= 0.9995 && Math.abs(value) < 1) return value > 0 ? ">99.9%" : "<-99.9%";
    return PERCENT.format(value);
  }

  // The unit of an axis whose largest value this is.
  function unitOf(largest) {
    return UNITS.find(([size]) => largest >= size) || UNITS[3];
  }

  // Multiples of 1, 2 or 5 of the unit in which the axis is written, so that ticks read as round numbers.
  function valueAxis(spec, smallest, largest, colour, log) {
    const fraction = spec.measure === "fraction";
    const units = spec.measure === "bytes" ? (value) => SIZES.find(([one]) => value >= one) || SIZES[4] : unitOf;
    const [size, unit] = fraction ? [0.01, "%"] : units(Math.max(largest, -smallest) || 1);
    const write = (value) => {
      const scaled = value / size;
      return log ? tick(value, spec.measure) : fraction ? `${Math.round(scaled)}%` : `${Number(scaled.toPrecision(4))}`;
    };
    const raw = (largest - smallest) / size / 5 || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const nice = [1, 2, 5, 10].find((step) => raw <= step * power) * power * size;
    return {
      type: log ? "log" : "value",
      name: fraction || log ? "" : unit,
      nameTextStyle: { color: colour("soft"), align: "right", padding: [0, 6, 4, 0] },
      interval: log ? undefined : nice,
      min: log ? undefined : Math.floor(smallest / nice) * nice,
      max: log ? undefined : Math.max(Math.ceil(largest / nice), 1) * nice,
      axisLabel: { color: colour("soft"), formatter: write, hideOverlap: true },
      splitLine: { lineStyle: { color: colour("line") } },
      axisLine: { show: false },
      axisTick: { show: false },
    };
  }

  // Which labels there is room for, `most` of them; a marked one takes the place of those beside it.
  function labelled(categories, marked, most) {
    const every = Math.max(Math.ceil(categories.length / most), 1);
    return (i) => marked.includes(i) || (i % every === 0 && !marked.some((one) => Math.abs(one - i) < every));
  }

  // What an axis shows of values that are close together: no less than a quarter of the largest, or all from zero.
  function rangeOf(low, high) {
    const from = high - Math.max(high - low, FAR * high) * 1.05;
    return [from < 0.6 * high ? 0 : from, high];
  }

  function categoryAxis(spec, categories, colour, width, most = Infinity) {
    const marked = spec.marked || [];
    const label = marked.length
      ? {
          interval: labelled(categories, marked, most),
          hideOverlap: false,
          formatter: (text, i) => (marked.includes(i) ? `{marked|▲ ${text}}` : text),
          rich: { marked: { color: colour("caused"), fontWeight: 700 } },
        }
      : {};
    return {
      type: "category",
      data: categories,
      name: spec.axis || "",
      nameLocation: "middle",
      nameGap: 30,
      nameTextStyle: { color: colour("soft") },
      axisLabel: { color: colour("ink"), hideOverlap: true, width, overflow: width > 200 ? "truncate" : "break", lineHeight: 14, ...label },
      axisLine: { lineStyle: { color: colour("line") } },
      axisTick: { show: false },
    };
  }

  // Built from nodes, never from markup: names in it come from the trace.
  function tip(title, lines) {
    const box = document.createElement("div");
    box.className = "tip";
    const head = document.createElement("b");
    head.textContent = title;
    box.append(head);
    for (const [label, value, shade] of lines) {
      const line = document.createElement("div");
      const swatch = document.createElement("i");
      swatch.style.background = shade || "transparent";
      const name = document.createElement("span");
      name.textContent = label;
      const number = document.createElement("span");
      number.textContent = value;
      line.append(swatch, name, number);
      box.append(line);
    }
    return box;
  }

  function frame(colour) {
    return {
      animation: false,
      textStyle: { fontFamily: getComputedStyle(document.body).fontFamily, fontSize: 12 },
      grid: { left: 4, right: 12, top: 56, bottom: 30, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
      tooltip: {
        confine: true,
        backgroundColor: colour("page"),
        borderColor: colour("line"),
        textStyle: { color: colour("ink") },
        extraCssText: "box-shadow: 0 4px 16px rgba(0,0,0,.14); white-space: normal; max-width: 22rem",
      },
      legend: { left: 0, top: 0, itemWidth: 11, itemHeight: 11, itemGap: 18, textStyle: { color: colour("ink") } },
    };
  }

  // The legend wraps; the chart has to begin below its last row.
  function legendRows(spec, width) {
    let rows = 1;
    let used = 0;
    for (const series of spec.series) {
      const needs = 11 + 18 + 5 + 7.2 * series.label.length;
      if (used > 0 && used + needs > width) [rows, used] = [rows + 1, 0];
      used += needs;
    }
    return rows;
  }

  // The chosen variant, in the order that the reader chose: by rank, or the longest of one part (or of the whole) first.
  function ordered(spec, state) {
    const chosen = spec.variants[state.variant];
    const sums = spec.categories.map((_, i) => chosen.values.reduce((sum, values) => sum + (values[i] || 0), 0));
    const weights = [null, sums, ...chosen.values][state.order || 0];
    const places = spec.categories.map((_, i) => i);
    if (weights) places.sort((a, b) => (weights[b] || 0) - (weights[a] || 0) || a - b);
    const pick = (values) => places.map((i) => values[i]);
    const marked = (spec.marked || []).map((i) => places.indexOf(i));
    return { variant: { ...chosen, values: chosen.values.map(pick) }, totals: pick(sums), categories: pick(spec.categories), marked };
  }

  function bars(spec, state, colour, width) {
    const { variant, totals, categories, marked } = ordered(spec, state);
    const share = spec.stacked && state.share;
    const shown = (value, i) => (value === null ? null : share ? value / totals[i] : value);
    const heights = spec.stacked ? totals : variant.values.flat();
    const measure = share ? "fraction" : spec.measure;
    const smallest = Math.min(0, ...heights);
    const largest = measure === "fraction" ? 1 : Math.max(0, ...heights);
    const value = valueAxis({ measure }, smallest, largest, colour, false);
    const category = categoryAxis({ ...spec, marked }, categories, colour, spec.horizontal ? (width < 560 ? 110 : Math.min(width * 0.4, 320)) : undefined, width / 34);
    const option = frame(colour);
    option.legend.show = spec.series.length > 1;
    if (spec.horizontal) {
      Object.assign(option.grid, { top: 20, bottom: 4 });
      Object.assign(category, { inverse: true });
      Object.assign(value, { name: "", axisLabel: { ...value.axisLabel, formatter: (v) => (v === 0 ? "0" : tick(v, spec.measure)) } });
    }
    if (!spec.horizontal) option.grid.top = 36 + 24 * (option.legend.show ? legendRows(spec, width) : 0);
    option.tooltip.trigger = "axis";
    option.tooltip.axisPointer = { type: "shadow" };
    option.tooltip.formatter = (points) => {
      const i = points[0].dataIndex;
      const lines = spec.series.map((series, s) => {
        const raw = variant.values[s][i];
        const part = spec.stacked && raw !== null && totals[i] ? ` · ${text(raw / totals[i], "fraction")}` : "";
        return [series.label, text(raw, spec.measure) + part, swatch(series.role, colour)];
      });
      return tip(`${spec.axis} ${categories[i]}`.trim(), lines);
    };
    option[spec.horizontal ? "yAxis" : "xAxis"] = category;
    option[spec.horizontal ? "xAxis" : "yAxis"] = value;
    option.series = spec.series.map((series, s) => ({
      name: series.label,
      type: "bar",
      stack: spec.stacked ? "all" : undefined,
      barMaxWidth: spec.stacked ? 56 : 28,
      barCategoryGap: "28%",
      barGap: "8%",
      itemStyle: { ...(spec.roles ? { color: (p) => colour(spec.roles[p.dataIndex]) } : fill(series.role, colour)), borderColor: colour("page"), borderWidth: spec.stacked && spec.categories.length < 40 ? 0.5 : 0 },
      emphasis: { disabled: true },
      label: spec.horizontal
        ? { show: true, position: "right", color: colour("ink"), formatter: (p) => label(spec, variant.values, s, p.dataIndex) }
        : undefined,
      data: variant.values[s].map(shown),
    }));
    if (spec.horizontal) option.grid.right = spec.shares ? 110 : 70;
    return option;
  }

  function label(spec, values, series, i) {
    const share = spec.shares ? ` · ${text(spec.shares[series][i], "fraction")}` : "";
    return text(values[series][i], spec.measure) + share;
  }

  // Ratios have a middle that means “the same”: as far above it as below, each way in a colour of its own.
  function scaleOf(spec, role, values, colour) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    if (spec.measure === "ratio") return { min: 1 - FAR, max: 1 + FAR, colours: ["ratio-low", "ratio-same", "ratio-high"].map(colour) };
    const wide = Math.max(high - low, FAR * high) || 1;
    const min = Math.max((low + high - wide) / 2, 0);
    return { min, max: min + wide, colours: [colour("heat-low"), colour(role)] };
  }

  const bound = (beyond, sign, value, spec) => `${beyond ? sign : ""}${text(value, spec.measure)}`;

  function heat(spec, state, colour, width, height) {
    const variant = spec.variants[state.variant];
    const cells = [];
    variant.values.forEach((row, y) => row.forEach((value, x) => value !== null && cells.push([x, y, value])));
    const values = cells.map((cell) => cell[2]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const option = frame(colour);
    option.legend.show = false;
    Object.assign(option.grid, { top: 52, bottom: 30, left: spec.rowAxis ? 26 : 4 });
    option.tooltip.formatter = (point) =>
      tip(`${spec.rowAxis} ${spec.rows[point.value[1]]}, ${spec.axis.toLowerCase()} ${spec.columns[point.value[0]]}`.trim(), [
        [variant.label, text(point.value[2], spec.measure)],
      ]);
    option.xAxis = categoryAxis({ axis: spec.axis }, spec.columns, colour);
    const named = spec.rowAxis ? undefined : width < 560 ? 110 : 260;
    const most = (height - 82) / 15;
    option.yAxis = { ...categoryAxis({ axis: spec.rowAxis, marked: spec.marked }, spec.rows, colour, named, most), inverse: true };
    const scale = scaleOf(spec, variant.role === "total" ? "heat-high" : variant.role, values, colour);
    option.visualMap = {
      min: scale.min,
      max: scale.max,
      orient: "horizontal",
      left: 0,
      top: 0,
      itemWidth: 12,
      itemHeight: 150,
      calculable: false,
      text: [bound(scale.max < high, "≥ ", scale.max, spec), bound(scale.min > low, "≤ ", scale.min, spec)],
      textStyle: { color: colour("ink") },
      inRange: { color: scale.colours },
    };
    option.series = [
      {
        type: "heatmap",
        data: cells,
        itemStyle: { borderColor: colour("page"), borderWidth: spec.columns.length < 80 && spec.rows.length < 40 ? 1 : 0 },
        emphasis: { disabled: true },
      },
    ];
    return option;
  }

  const kinds = { bars, heat };

  return {
    option: (spec, state, element) => kinds[spec.kind](spec, state, palette(element), element.clientWidth, element.clientHeight),
    categoryAxis,
    count,
    frame,
    kinds,
    legendRows,
    many,
    moment,
    palette,
    rangeOf,
    text,
    tick,
    tip,
    unitOf,
    valueAxis,
  };
})();
