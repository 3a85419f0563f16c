// What of the page is beyond the paper of this width, which ranks and legends the charts lost, and what has no colour.
(paper) => {
  const specs = JSON.parse(document.getElementById("charts").textContent);
  const seen = { beyond: [], missing: {}, ranks: [], pale: [] };
  const hidden = ".hidden, .sql, .tools, .controls > :not(.swatches), .origin-link, nav";
  for (const one of document.querySelectorAll("main *")) {
    if (one.closest(hidden) || one.getBoundingClientRect().right <= paper + 1) continue;
    seen.beyond.push(`${one.tagName} ${one.id} ${one.textContent.slice(0, 40)}`);
  }
  for (const chart of document.querySelectorAll("[data-chart]")) {
    const [name, drawing] = [chart.dataset.chart, chart.querySelector("svg, canvas")];
    if (drawing.getBoundingClientRect().height < 50) seen.beyond.push(`${name} has no height`);
    if (drawing.tagName === "CANVAS") continue;
    const texts = new Set([...drawing.querySelectorAll("text")].map((text) => text.textContent));
    const { axis, horizontal, categories = [], series = [] } = specs[name];
    const isRanks = axis === "Rank" && !horizontal && categories.length;
    if (isRanks) seen.ranks.push(name);
    const wanted = [...(isRanks ? categories : []), ...(series.length > 1 ? series.map((one) => one.label) : [])];
    const missing = wanted.filter((label) => !texts.has(label) && !texts.has(`▲ ${label}`));
    if (missing.length) seen.missing[name] = missing;
  }
  for (const swatch of document.querySelectorAll(".swatches i, .bar span")) {
    if (getComputedStyle(swatch).printColorAdjust !== "exact") seen.pale.push(swatch.outerHTML);
  }
  return seen;
}
