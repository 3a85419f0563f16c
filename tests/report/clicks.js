() => {
  const table = document.getElementById("table-budget");
  const heads = [...table.tHead.rows].at(-1).cells;
  const column = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
  const seen = [];
  heads[3].querySelector("button").click();
  seen.push(column().slice(0, 2), heads[3].getAttribute("aria-sort"));
  heads[3].querySelector("button").click();
  seen.push(column().at(-1), heads[3].getAttribute("aria-sort"));
  const chart = document.querySelector("[data-chart=budget]");
  const before = chart.innerHTML;
  const steps = document.querySelector("[data-controls=budget] select");
  seen.push(steps.options.length);
  steps.value = "3";
  steps.dispatchEvent(new Event("change"));
  const step = chart.innerHTML;
  const [time, share] = document.querySelectorAll("[data-controls=budget] .choice button");
  share.click();
  seen.push(before !== step, step !== chart.innerHTML, chart.textContent.includes("100%"));
  seen.push(time.getAttribute("aria-pressed"), share.getAttribute("aria-pressed"));
  return seen;
}
