// Asks the server. Columns of numbers come as wire.py writes them: a line of JSON, then bytes.

export class Refused extends Error {}

export async function ask(path, params = {}, options = {}) {
  const query = new URLSearchParams(params).toString();
  const response = await fetch(`ask/${path}${query && `?${query}`}`, options);
  if (response.ok) return response;
  const said = response.headers.get("content-type")?.startsWith("application/json") ? await response.json() : {};
  throw new Refused(said.error || `the server answered ${response.status}; is it still running?`);
}

export const askJson = async (...given) => (await ask(...given)).json();

export const askColumns = async (...given) => decode(await (await ask(...given)).arrayBuffer());

const TYPES = { u1: Uint8Array, u2: Uint16Array, i4: Int32Array, f4: Float32Array, f8: Float64Array };

export function decode(buffer) {
  const end = new Uint8Array(buffer).indexOf(10) + 1;
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 0, end)));
  let at = end;
  for (const [name, type, length] of head.columns) {
    head[name] = new TYPES[type](buffer, at, length);
    at += Math.ceil(head[name].byteLength / 8) * 8;
  }
  return head;
}

// What only the last request counts of: each call takes the one before back, and `stop` the last.
export function latest(asking) {
  let control = new AbortController();
  const last = async (...given) => {
    control.abort();
    control = new AbortController();
    try {
      return await asking(control.signal, ...given);
    } catch (error) {
      if (error.name === "AbortError") return null;
      throw error;
    }
  };
  last.stop = () => control.abort();
  return last;
}
