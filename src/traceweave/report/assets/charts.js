// From a chart of the page's data (see the `chart` dictionaries of report/sections) to an ECharts option.
// Times arrive as integer nanoseconds, shares as fractions; units are chosen here, once per chart.
const TraceweaveCharts = (() => {
  "use strict";

  const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const QUANTILES = { p50: ["circle", 11], p95: ["diamond", 11], p99: ["triangle", 10], max: ["circle", 8] };
  const numbers = new Map();

  function palette(element) {
    const style = getComputedStyle(element);
    return (name) => style.getPropertyValue(`--${name}`).trim();
  }

  function fixed(value, digits) {
    if (!numbers.has(digits)) {
      numbers.set(digits, new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
    }
    return numbers.get(digits).format(value);
  }

  function concise(value) {
    const [size, unit] = unitOf(Math.abs(value));
    return `${Number((value / size).toPrecision(3))} ${unit}`;
  }

  function unitOf(largest) {
    return UNITS.find(([size]) => largest >= size) || UNITS[3];
  }

  function text(value, measure) {
    if (value === null || value === undefined) return "–";
    if (measure === "fraction") return `${fixed(value * 100, 1)}%`;
    const [size, unit] = unitOf(Math.abs(value));
    const scaled = value / size;
    const digits = size === 1 ? 0 : Math.abs(scaled) < 10 ? 2 : Math.abs(scaled) < 100 ? 1 : 0;
    return `${fixed(scaled, digits)} ${unit}`;
  }

  function bytes(value) {
    const [size, unit] = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]].find(([one]) => value >= one) || [1, "B"];
    return `${Number((value / size).toPrecision(3))} ${unit}`;
  }

  // Multiples of 1, 2 or 5 of the unit in which the axis is written, so that ticks read as round numbers.
  function valueAxis(spec, smallest, largest, colour, log) {
    const fraction = spec.measure === "fraction";
    const [size, unit] = fraction ? [0.01, "%"] : unitOf(Math.max(largest, -smallest) || 1);
    const write = (value) => {
      const scaled = value / size;
      return log ? concise(value) : fraction ? `${Math.round(scaled)}%` : `${Number(scaled.toPrecision(4))}`;
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

  function categoryAxis(spec, categories, colour, width) {
    return {
      type: "category",
      data: categories,
      name: spec.axis || "",
      nameLocation: "middle",
      nameGap: 30,
      nameTextStyle: { color: colour("soft") },
      axisLabel: { color: colour("ink"), hideOverlap: true, width, overflow: width > 200 ? "truncate" : "break", lineHeight: 14 },
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

  function bars(spec, state, colour, width) {
    const variant = spec.variants[state.variant];
    const share = spec.stacked && state.share;
    const totals = spec.categories.map((_, i) => variant.values.reduce((sum, values) => sum + (values[i] || 0), 0));
    const shown = (value, i) => (value === null ? null : share ? value / totals[i] : value);
    const heights = spec.stacked ? totals : variant.values.flat();
    const measure = share ? "fraction" : spec.measure;
    const smallest = Math.min(0, ...heights);
    const largest = measure === "fraction" ? 1 : Math.max(0, ...heights);
    const value = valueAxis({ measure }, smallest, largest, colour, false);
    const category = categoryAxis(spec, spec.categories, colour, spec.horizontal && width < 560 ? 110 : undefined);
    const option = frame(colour);
    option.legend.show = spec.series.length > 1;
    if (spec.horizontal) {
      Object.assign(option.grid, { top: 20, bottom: 4 });
      Object.assign(category, { inverse: true });
      Object.assign(value, { name: "", axisLabel: { ...value.axisLabel, formatter: (v) => (v === 0 ? "0" : concise(v)) } });
    }
    if (!spec.horizontal) option.grid.top = 36 + 24 * (option.legend.show ? legendRows(spec, width) : 0);
    option.tooltip.trigger = "axis";
    option.tooltip.axisPointer = { type: "shadow" };
    option.tooltip.formatter = (points) => {
      const i = points[0].dataIndex;
      const lines = spec.series.map((series, s) => {
        const raw = variant.values[s][i];
        const part = spec.stacked && raw !== null && totals[i] ? ` · ${text(raw / totals[i], "fraction")}` : "";
        return [series.label, text(raw, spec.measure) + part, colour(series.role)];
      });
      return tip(`${spec.axis} ${spec.categories[i]}`.trim(), lines);
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
      itemStyle: { color: colour(series.role), borderColor: colour("page"), borderWidth: spec.stacked && spec.categories.length < 40 ? 0.5 : 0 },
      emphasis: { disabled: true },
      label: spec.horizontal
        ? { show: true, position: "right", color: colour("ink"), formatter: (p) => text(variant.values[s][p.dataIndex], spec.measure) }
        : undefined,
      data: variant.values[s].map(shown),
    }));
    if (spec.horizontal) option.grid.right = 70;
    return option;
  }

  function heat(spec, state, colour) {
    const variant = spec.variants[state.variant];
    const cells = [];
    variant.values.forEach((row, y) => row.forEach((value, x) => value !== null && cells.push([x, y, value])));
    const values = cells.map((cell) => cell[2]);
    const low = Math.min(...values);
    const high = Math.max(...values);
    const option = frame(colour);
    option.legend.show = false;
    Object.assign(option.grid, { top: 52, bottom: 30, left: 26 });
    option.tooltip.formatter = (point) =>
      tip(`Rank ${spec.rows[point.value[1]]}, step ${spec.columns[point.value[0]]}`, [
        [variant.label, text(point.value[2], spec.measure)],
      ]);
    option.xAxis = categoryAxis(spec, spec.columns, colour);
    option.yAxis = { ...categoryAxis({ axis: spec.rowAxis }, spec.rows, colour), inverse: true };
    const role = variant.role === "total" ? "heat-high" : variant.role;
    option.visualMap = {
      min: low,
      max: high > low ? high : low + 1,
      orient: "horizontal",
      left: 0,
      top: 0,
      itemWidth: 12,
      itemHeight: 150,
      calculable: false,
      text: [text(high, spec.measure), text(low, spec.measure)],
      textStyle: { color: colour("ink") },
      inRange: { color: [colour("heat-low"), colour(role)] },
    };
    option.series = [
      {
        type: "heatmap",
        data: cells,
        itemStyle: { borderColor: colour("page"), borderWidth: spec.columns.length < 80 ? 1 : 0 },
        emphasis: { disabled: true },
      },
    ];
    return option;
  }

  function quantiles(spec, state, colour, width) {
    const variant = spec.variants[state.variant];
    const option = frame(colour);
    const present = variant.values.flat().filter((v) => v > 0);
    const largest = Math.max(1, ...present);
    const log = largest / Math.min(largest, ...present) > 50;
    Object.assign(option.grid, { top: 36, bottom: 26, right: 24 });
    option.xAxis = valueAxis(spec, 0, largest, colour, log);
    Object.assign(option.xAxis, { name: log ? "time, log scale" : `time in ${option.xAxis.name}`, nameLocation: "middle", nameGap: 28 });
    option.xAxis.nameTextStyle = { color: colour("soft") };
    if (log) {
      option.xAxis.min = 10 ** Math.floor(Math.log10(Math.min(...present)));
      option.xAxis.max = 10 ** Math.ceil(Math.log10(Math.max(...present)));
    }
    option.yAxis = { ...categoryAxis(spec, spec.categories, colour, width < 560 ? 120 : 300), inverse: true };
    option.yAxis.splitLine = { show: true, lineStyle: { color: colour("line") } };
    option.tooltip.trigger = "axis";
    option.tooltip.axisPointer = { type: "shadow" };
    option.tooltip.formatter = (points) => {
      const i = spec.categories.indexOf(points[0].name);
      const lines = spec.series.map((s, k) => [s.label, text(variant.values[k][i], spec.measure), colour(s.role)]);
      return tip(spec.categories[i], lines);
    };
    const positive = (values) => values.map((v) => (v > 0 ? v : null));
    const spans = spec.categories.map((_, i) => [positive([variant.values[0][i]])[0], variant.values[3][i], i]);
    option.series = [
      {
        type: "custom",
        silent: true,
        renderItem: (params, api) => {
          const [from, to] = [api.coord([api.value(0), api.value(2)]), api.coord([api.value(1), api.value(2)])];
          return { type: "line", shape: { x1: from[0], y1: from[1], x2: to[0], y2: to[1] }, style: { stroke: colour("gap"), lineWidth: 2 } };
        },
        encode: { x: [0, 1], y: 2 },
        data: spans.filter(([from, to]) => from !== null && to > 0),
      },
      ...spec.series.map((series, k) => ({
        name: series.label,
        type: "scatter",
        symbol: QUANTILES[series.role][0],
        symbolSize: QUANTILES[series.role][1],
        itemStyle: series.role === "max"
          ? { color: colour("page"), borderColor: colour("max"), borderWidth: 2 }
          : { color: colour(series.role), opacity: 1 },
        emphasis: { disabled: true },
        data: positive(variant.values[k]).map((v, i) => [v, spec.categories[i]]).filter(([v]) => v !== null),
      })),
    ];
    return option;
  }

  const KINDS = { bars, heat, quantiles };

  return {
    option: (spec, state, element) => KINDS[spec.kind](spec, state, palette(element), element.clientWidth),
    bytes,
    palette,
    text,
    tip,
    unitOf,
  };
})();
