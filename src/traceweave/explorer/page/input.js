// Wheel, pointer and keys. The wheel zooms at the pointer, sideways it moves, with Shift it scrolls; dragging moves both ways,
// with Shift (or on the ruler) it selects time.
const { toNs } = TraceweaveTimelineView;

export const KEYS = [
  ["W S", "zoom in, zoom out at the pointer (also + −)"],
  ["A D", "move left, right (also ← →)"],
  ["↑ ↓", "scroll"],
  ["0", "the whole run"],
  ["F", "zoom to what is picked, else to what is selected"],
  ["M", "select the time of what is picked"],
  ["N P", "next, previous operation of the lane that is picked"],
  ["/", "search; Enter and Shift+Enter go to hits, or to a time: 05:02:02.9, 91.8 ms, step 5"],
  ["Shift + drag", "select a stretch of time; or drag on the ruler"],
  ["Esc", "let go of what is picked and selected"],
  ["?", "this list"],
];

const STEP = 0.6;

export function listenToWheel(stage, canvas, view) {
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 16 : 1;
      const [dx, dy] = [event.deltaX * lines, event.deltaY * lines];
      if (event.shiftKey && !event.ctrlKey) return stage.scrollBy(0, dy || dx);
      if (Math.abs(dx) > Math.abs(dy)) return view.pan(dx / canvas.clientWidth);
      const at = toNs(view, canvas.clientWidth, event.clientX - canvas.getBoundingClientRect().left);
      view.wheel(dy, at);
    },
    { passive: false },
  );
}

export function listenToPointer(stage, canvas, view, acts) {
  let held = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = place(event);
    held = { x, y, from: view.from, scroll: stage.scrollTop, selecting: event.shiftKey, moved: false };
    stage.focus({ preventScroll: true });
    try {
      canvas.setPointerCapture(event.pointerId);
    } catch {
      // a pointer that is gone already cannot be captured
    }
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!held) return acts.point(x, y);
    held.moved = held.moved || Math.hypot(x - held.x, y - held.y) > 4;
    if (!held.moved) return;
    acts.leave();
    if (held.selecting) return selectBetween(view, canvas, held.x, x);
    view.look(held.from - ((x - held.x) / canvas.clientWidth) * view.length, view.length);
    stage.scrollTop = held.scroll - (y - held.y);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (held && !held.moved) acts.click(...place(event));
    held = null;
  });
  canvas.addEventListener("pointercancel", () => (held = null));
  canvas.addEventListener("pointerleave", () => acts.leave());
  canvas.addEventListener("dblclick", (event) => acts.open(...place(event)));
}

export function listenToRuler(ruler, view) {
  let held = null;
  const at = (event) => event.clientX - ruler.getBoundingClientRect().left;
  ruler.addEventListener("pointerdown", (event) => {
    held = at(event);
    ruler.setPointerCapture(event.pointerId);
  });
  ruler.addEventListener("pointermove", (event) => {
    if (held !== null && Math.abs(at(event) - held) > 3) selectBetween(view, ruler, held, at(event));
  });
  ruler.addEventListener("pointerup", () => (held = null));
}

function selectBetween(view, canvas, a, b) {
  const [from, until] = [Math.min(a, b), Math.max(a, b)].map((x) => Math.min(Math.max(Math.round(toNs(view, canvas.clientWidth, x)), 0), view.span));
  if (until > from) view.select({ from, until });
}

export function listenToKeys(stage, view, pointer, acts) {
  const zoom = (factor) => view.zoom(factor, pointer());
  const views = {
    w: () => zoom(STEP),
    s: () => zoom(1 / STEP),
    "+": () => zoom(STEP),
    "=": () => zoom(STEP),
    "-": () => zoom(1 / STEP),
    a: () => view.pan(-0.2),
    d: () => view.pan(0.2),
    arrowleft: () => view.pan(-0.2),
    arrowright: () => view.pan(0.2),
    arrowup: () => stage.scrollBy(0, -60),
    arrowdown: () => stage.scrollBy(0, 60),
    0: () => view.whole(),
    home: () => view.whole(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, dialog")) return;
    const key = event.key.toLowerCase();
    const onControl = event.target.closest("button, a, summary") && ["arrowup", "arrowdown", "arrowleft", "arrowright"].includes(key);
    const act = views[key] || acts[key];
    if (!act || onControl) return;
    event.preventDefault();
    act();
    if (views[key]) acts.say();
  });
}
