// Charts of points and lines: quantiles, bandwidth by size with its fitted line, and memory over time.
(() => {
  "use strict";

  const { categoryAxis, frame, kinds, legendRows, text, tick, tip, unitOf, valueAxis } = TraceweaveCharts;
  const ROLES = ["p50", "p99", "hidden", "p95", "max", "total"];
  const STEPS = 48;
  const QUANTILES = { min: ["circle", 8], p50: ["circle", 11], p95: ["diamond", 11], p99: ["triangle", 10], max: ["circle", 8] };

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
    const spans = spec.categories.map((_, i) => [positive([variant.values[0][i]])[0], variant.values.at(-1)[i], i]);
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
        itemStyle: ["min", "max"].includes(series.role)
          ? { color: colour("page"), borderColor: colour(series.role), borderWidth: 2 }
          : { color: colour(series.role), opacity: 1 },
        emphasis: { disabled: true },
        data: positive(variant.values[k]).map((v, i) => [v, spec.categories[i]]).filter(([v]) => v !== null),
      })),
    ];
    return option;
  }

  // From the power of ten below the smallest to the one above the largest.
  const decades = (values) => [10 ** Math.floor(Math.log10(Math.min(...values))), 10 ** Math.ceil(Math.log10(Math.max(...values) * 1.0001))];
  const rate = (value, write = text) => `${write(value * 1e9, "bytes")}/s`;

  function logAxis(values, write, colour, more) {
    const [min, max] = decades(values);
    return {
      type: "log",
      min,
      max,
      axisLabel: { color: colour("soft"), formatter: write, hideOverlap: true },
      splitLine: { lineStyle: { color: colour("line") } },
      axisLine: { show: false },
      axisTick: { show: false },
      nameTextStyle: { color: colour("soft") },
      ...more,
    };
  }

  // Bus bandwidth over the sizes that the fit rests on: effective bytes / (alpha + effective bytes / beta).
  function curve({ alpha, beta, factor, from, to }) {
    return Array.from({ length: STEPS + 1 }, (_, i) => {
      const size = from * (to / from) ** (i / STEPS);
      const moved = size * factor;
      return [size, moved / (alpha + moved / beta)];
    });
  }

  const mark = (shade, hollow, colour) => (hollow ? { color: colour("page"), borderColor: shade, borderWidth: 2 } : { color: shade });

  function points(spec, state, colour, width) {
    const { series } = spec.variants[state.variant];
    const option = frame(colour);
    const lines = series.map((one) => (one.line ? curve(one.line) : []));
    const all = [...series.flatMap((one) => one.points), ...lines.flat()];
    option.legend.data = series.map((one) => one.label);
    option.legend.formatter = (label) => (label.length > 48 ? `${label.slice(0, 47)}…` : label);
    Object.assign(option.grid, { top: 36 + 24 * legendRows(spec.variants[state.variant], width), bottom: 34, right: 24 });
    option.xAxis = logAxis(all.map(([x]) => x), (value) => tick(value, "bytes"), colour, { name: "size", nameLocation: "middle", nameGap: 30 });
    option.yAxis = logAxis(all.map(([, y]) => y), (value) => rate(value, tick), colour, { name: "bus bandwidth", nameTextStyle: { color: colour("soft"), align: "left" } });
    option.tooltip.trigger = "item";
    option.tooltip.formatter = ({ seriesIndex, value }) => {
      const one = series[seriesIndex % series.length];
      const [size, bandwidth, number, time, clocks] = value;
      return tip(one.label, [
        ["Size", text(size, "bytes")],
        [clocks ? "Bus bandwidth, median" : "Bus bandwidth, at least", rate(bandwidth)],
        [clocks ? "Transfer, median" : "Shortest durations, median", text(time, "duration")],
        ["Number", String(number)],
      ]);
    };
    const shades = series.map((_, i) => colour(ROLES[i % ROLES.length]));
    option.series = [
      ...series.map((one, i) => ({
        name: one.label,
        type: "scatter",
        symbolSize: 11,
        color: shades[i],
        emphasis: { disabled: true },
        data: one.points.map((point) => ({ value: point, itemStyle: mark(shades[i], !point[4], colour) })),
      })),
      ...series.map((one, i) => ({
        name: one.label,
        type: "line",
        silent: true,
        showSymbol: false,
        color: shades[i],
        lineStyle: { width: 2, opacity: 0.7 },
        data: lines[i],
      })),
    ];
    return option;
  }

  function curves(spec, state, colour, width) {
    const variant = spec.variants[state.variant];
    const option = frame(colour);
    const [size, unit] = unitOf(variant.at.at(-1) || 1);
    const largest = Math.max(1, ...variant.values.flat().filter((value) => value !== null));
    Object.assign(option.grid, { top: 36 + 24 * legendRows(spec, width), bottom: 34, right: 24 });
    option.xAxis = {
      ...valueAxis({}, 0, variant.at.at(-1) || 1, colour, false),
      name: `${unit} ${spec.axis}`,
      nameLocation: "middle",
      nameGap: 28,
      nameTextStyle: { color: colour("soft") },
      splitLine: { show: false },
    };
    option.yAxis = valueAxis({ measure: "bytes" }, 0, largest, colour, false);
    option.tooltip.trigger = "axis";
    option.tooltip.formatter = ([{ dataIndex }]) =>
      tip(
        `${Number((variant.at[dataIndex] / size).toPrecision(4))} ${unit} ${spec.axis}`,
        spec.series.map((series, s) => [series.label, text(variant.values[s][dataIndex], "bytes"), colour(series.role)]),
      );
    option.series = spec.series.map((series, s) => ({
      name: series.label,
      type: "line",
      step: "end",
      showSymbol: false,
      color: colour(series.role),
      lineStyle: { width: 2 },
      areaStyle: s === spec.series.length - 1 ? { opacity: 0.18 } : undefined,
      emphasis: { disabled: true },
      data: variant.at.map((at, i) => [at, variant.values[s][i]]),
    }));
    return option;
  }

  Object.assign(kinds, { quantiles, points, curves });
})();
