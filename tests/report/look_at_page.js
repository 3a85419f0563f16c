// Looks at a whole page as a user would, and returns what came of it: which charts have pixels of
// several colours, whether anything sticks out sideways, and whether a click zooms the timeline and sorts a table.
async () => {
  const frame = () => new Promise((done) => setTimeout(done, 60));
  const width = document.documentElement.clientWidth;
  await frame();

  const coloursOf = (canvas) => {
    const pen = canvas.getContext("2d", { willReadFrequently: true });
    const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
    const found = new Set();
    for (let i = 0; i < data.length; i += 4 * 5) if (data[i + 3] === 255) found.add(`${data[i]},${data[i + 1]},${data[i + 2]}`);
    return found.size;
  };
  const canvasOf = async (svg) => {
    const box = svg.getBoundingClientRect();
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
    await image.decode();
    const canvas = Object.assign(document.createElement("canvas"), { width: box.width, height: box.height });
    canvas.getContext("2d").drawImage(image, 0, 0);
    return canvas;
  };

  const seen = { colours: {}, wide: [] };
  for (const chart of document.querySelectorAll("[data-chart], [data-timeline]")) {
    const canvas = chart.querySelector("canvas") || (await canvasOf(chart.querySelector("svg")));
    seen.colours[chart.dataset.chart || chart.dataset.timeline] = coloursOf(canvas);
  }
  for (const one of document.querySelectorAll("main *")) {
    if (one.closest(".scroll, .sql, svg, .hidden, .card")) continue;
    if (one.getBoundingClientRect().right > width + 1) seen.wide.push(one.tagName + "." + one.className);
  }
  seen.overflow = document.documentElement.scrollWidth - width;

  const host = document.querySelector("[data-timeline]");
  const shot = () => host.querySelector("canvas").toDataURL();
  const before = shot();
  host.focus();
  host.dispatchEvent(new KeyboardEvent("keydown", { key: "+", bubbles: true }));
  await frame();
  seen.zoomed = shot() !== before;
  seen.told = document.getElementById("status").textContent.startsWith("Shown: ");

  seen.sorted = [...document.querySelectorAll("table")].map((table) => {
    const heads = [...[...table.tHead.rows].at(-1).cells];
    const at = heads.findLastIndex((head) => head.classList.contains("num"));
    if (at < 0) return true;
    heads[at].querySelector("button").click();
    const values = [...table.tBodies[0].rows].map((row) => row.cells[at].dataset.sort ?? row.cells[at].textContent);
    const known = values.filter((value) => value !== "").map(Number);
    return known.every((value, i) => i === 0 || value <= known[i - 1]) && values.slice(known.length).every((value) => value === "");
  });
  seen.nodes = document.querySelectorAll("*").length;
  return seen;
}
