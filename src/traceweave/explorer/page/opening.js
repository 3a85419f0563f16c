// Says how far the run is read, and loads the page anew when it is there.
const bar = document.querySelector("progress");
const told = document.querySelector("p");
const known = document.querySelector("pre");
const AGAIN_MS = 250;
const size = (bytes) => TraceweaveCharts.text(bytes, "bytes");

async function look() {
  let answer;
  try {
    answer = await fetch("ask/opening");
  } catch {
    bar.hidden = true;
    told.textContent = "The server has ended: see where it was started.";
    return;
  }
  if (answer.status === 404) return location.reload();
  const { stage, said, files, done, size: whole, read } = await answer.json();
  if (whole) Object.assign(bar, { max: whole, value: read });
  told.textContent = files ? `${stage}: ${size(read)} of ${size(whole)}, ${done} of ${files} files` : `${stage} …`;
  known.textContent = said.join("\n");
  setTimeout(look, AGAIN_MS);
}

look();
