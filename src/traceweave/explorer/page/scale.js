// Where times lie on a canvas of the given width.

export const toX = (view, width, ns) => ((ns - view.from) / view.length) * width;
export const toNs = (view, width, x) => view.from + (x / width) * view.length;

// A canvas as large as its place on the page, in device pixels; returns a pen that draws in CSS pixels.
export function penOf(canvas) {
  const scale = window.devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const [w, h] = [Math.max(Math.round(width * scale), 1), Math.max(Math.round(height * scale), 1)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.textBaseline = "middle";
  return { pen, width, height };
}

// The distance of ticks, a round number of ns, so that about one comes every `apart` pixels.
export function tickOf(length, width, apart = 110) {
  const raw = length / Math.max(width / apart, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  return Math.max([1, 2, 5, 10].find((one) => raw <= one * power) * power, 1);
}
