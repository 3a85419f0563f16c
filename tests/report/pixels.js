() => {
  const heat = document.querySelector("[data-chart=budget-heat] canvas");
  const pen = heat.getContext("2d", { willReadFrequently: true });
  const { data } = pen.getImageData(0, 0, heat.width, heat.height);
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] === 255) colours.add(data.slice(i, i + 3).join());
  }
  return [colours.size > 2, document.querySelectorAll("*").length];
}
