// Charts of two runs: the steps of both, and the way from the step of one to that of the other.
(() => {
  "use strict";

  const { categoryAxis, frame, kinds, rangeOf, text, tip, valueAxis } = TraceweaveCharts;

  // The share `part` of the sorted values lies below it; between two of them in proportion.
  function quantile(sorted, part) {
    const at = part * (sorted.length - 1);
    const [low, high] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]];
    return low + (at - Math.floor(at)) * (high - low);
  }

  function samples(spec, state, colour) {
    const { values } = spec.variants[state.variant];
    const [from, to] = rangeOf(Math.min(...values.flat()), Math.max(...values.flat()));
    const option = frame(colour);
    const time = valueAxis(spec, from, to, colour, false);
    const order = { ...valueAxis({}, 0, 1, colour, false), name: `${spec.axis}, in order`, nameLocation: "middle", nameGap: 10, axisLabel: { show: false } };
    order.nameTextStyle = { color: colour("soft") };
    const longest = Math.max(...values.map((one) => one.length));
    Object.assign(order, { min: 0, max: longest + 1, interval: undefined, splitLine: { show: false } });
    option.grid = [
      { left: 56, right: "36%", top: 60, bottom: 34, outerBoundsMode: "none" },
      { left: "68%", right: 12, top: 60, bottom: 34, outerBoundsMode: "none" },
    ];
    option.xAxis = [{ ...order, gridIndex: 0 }, { ...categoryAxis({}, spec.series.map((one) => one.label), colour), gridIndex: 1 }];
    option.yAxis = [{ ...time, gridIndex: 0 }, { ...time, gridIndex: 1, name: "", axisLabel: { show: false } }];
    option.legend.data = spec.series.map((one) => one.label);
    const boxes = values.map((one) => [0, 0.25, 0.5, 0.75, 1].map((part) => quantile([...one].sort((a, b) => a - b), part)));
    option.tooltip.trigger = "item";
    option.tooltip.formatter = ({ seriesIndex, dataIndex }) => {
      const run = spec.series[seriesIndex];
      if (run) return tip(`${run.label}, ${run.steps[dataIndex]}`, [["Time", text(values[seriesIndex][dataIndex], spec.measure)]]);
      const names = ["Shortest", "Quarter below", "Median", "Quarter above", "Longest"];
      return tip(spec.series[dataIndex].label, names.map((name, i) => [name, text(boxes[dataIndex][i], spec.measure)]));
    };
    option.series = [
      ...spec.series.map((run, i) => ({
        name: run.label,
        type: "scatter",
        symbol: i ? "diamond" : "circle",
        symbolSize: i ? 10 : 8,
        color: colour(run.role),
        emphasis: { disabled: true },
        data: values[i].map((value, place) => [place + 1, value]),
      })),
      {
        type: "boxplot",
        xAxisIndex: 1,
        yAxisIndex: 1,
        boxWidth: [12, 44],
        emphasis: { disabled: true },
        data: boxes.map((value, i) => ({ value, itemStyle: { color: colour("panel"), borderColor: colour(spec.series[i].role), borderWidth: 2 } })),
      },
    ];
    return option;
  }

  function waterfall(spec, state, colour, width) {
    const [start, end] = spec.variants[state.variant].values;
    const last = end.length - 1;
    const steps = [end[0], end[last], ...end, ...start.slice(1, last)];
    const [from, to] = rangeOf(Math.min(...steps), Math.max(...steps));
    const change = (i) => (i === 0 || i === last ? end[i] : end[i] - start[i]);
    const label = (i) => `${i > 0 && i < last && change(i) > 0 ? "+" : ""}${text(change(i), spec.measure)}`;
    const option = frame(colour);
    option.legend.show = false;
    Object.assign(option.grid, { top: 12, right: 84, bottom: from ? 40 : 8 });
    option.yAxis = { ...categoryAxis({}, spec.categories, colour, width < 560 ? 110 : Math.min(width * 0.4, 320)), inverse: true };
    const time = valueAxis(spec, from, to, colour, false);
    const begins = time.min > 0 ? `${time.name}; the axis begins at ${text(time.min, spec.measure)}` : time.name;
    option.xAxis = { ...time, name: begins, nameLocation: "middle", nameGap: 28, nameTextStyle: { color: colour("soft") } };
    option.tooltip.trigger = "item";
    option.tooltip.formatter = ({ dataIndex }) => tip(spec.categories[dataIndex], [["", label(dataIndex)]]);
    const low = (i) => Math.max(Math.min(start[i], end[i]), time.min);
    option.series = [
      { type: "bar", stack: "all", silent: true, itemStyle: { color: "transparent" }, data: start.map((_, i) => low(i)) },
      {
        type: "bar",
        stack: "all",
        barMaxWidth: 22,
        emphasis: { disabled: true },
        label: { show: true, position: "right", color: colour("ink"), formatter: ({ dataIndex }) => label(dataIndex) },
        itemStyle: { color: ({ dataIndex }) => colour(spec.roles[dataIndex]) },
        data: start.map((_, i) => Math.max(start[i], end[i]) - low(i)),
      },
    ];
    return option;
  }

  Object.assign(kinds, { samples, waterfall });
})();
