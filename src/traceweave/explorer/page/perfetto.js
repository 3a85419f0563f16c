// Hands a trace to Perfetto's page in a window of its own, by the messages that it documents: PING until it answers PONG.
import { ask } from "./server.js";

export const PERFETTO = "https://ui.perfetto.dev";
const EVERY = 100;
const PATIENCE = 60_000;

// To be called when the user clicks: browsers open no window otherwise.
export async function openInPerfetto(title, params) {
  const other = window.open(PERFETTO);
  if (!other) throw new Error("the browser did not open a window; allow this page to open one");
  const [trace] = await Promise.all([ask("trace", params).then((response) => response.arrayBuffer()), ready(other)]);
  other.postMessage({ perfetto: { buffer: trace, title, fileName: `${title}.pftrace` } }, PERFETTO, [trace]);
}

function ready(other) {
  return new Promise((resolve, reject) => {
    const end = (settle, value) => {
      clearInterval(asking);
      clearTimeout(late);
      removeEventListener("message", heard);
      settle(value);
    };
    const heard = (event) => event.source === other && event.origin === PERFETTO && event.data === "PONG" && end(resolve);
    const asking = setInterval(() => other.postMessage("PING", PERFETTO), EVERY);
    const late = setTimeout(() => end(reject, new Error("Perfetto does not answer; is there a way to the network?")), PATIENCE);
    addEventListener("message", heard);
  });
}
