// @ts-check
/** Where answers come from: the server, or an exported page that carries them. */
import { useEffect, useRef, useState } from "./html.js";

/** @typedef {import("./types.js").ApiError} ApiError */

const CACHED = 60;
const LOST_MS = 4000;
/** @type {Map<string, unknown>} */
const cache = new Map();
/** Requests that are under way: whoever wants the same answer waits with them. @type {Map<string, {answer: Promise<unknown>, wanted: number, stop: AbortController}>} */
const asked = new Map();
/** @type {Record<string, unknown>|null} */
let carried = null;

/** Whether this page is an exported file: it has no server and no other pages. */
export function isExported() {
  return document.getElementById("answers") !== null;
}

/** Whether the answer at an address can be had: an exported page has only those that it carries. @param {string} address */
export function holds(address) {
  return carried === null || carried[address] !== undefined;
}

/** Read the answers that an exported page carries; resolves to its start address, or null if a server answers. */
export async function openAnswers() {
  const holder = document.getElementById("answers");
  if (!holder) return null;
  const packed = Uint8Array.from(atob((holder.textContent ?? "").trim()), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const file = await new Response(stream).json();
  carried = file.answers;
  return /** @type {string} */ (file.start);
}

/**
 * Return the address of an answer, below that of the page; values that are null, undefined or empty are left out.
 * @param {(string|number)[]} parts
 * @param {Record<string, string|number|boolean|null|undefined|string[]>} [values]
 */
export function api(parts, values = {}) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== "") search.append(key, String(item));
    }
  }
  const text = search.toString();
  return `api/${parts.map((part) => encodeURIComponent(String(part))).join("/")}${text ? `?${text}` : ""}`;
}

/** What went wrong, as the server says it. */
export class AnswerError extends Error {
  /** @param {ApiError} answer @param {number} status */
  constructor(answer, status) {
    super(answer.error);
    this.answer = answer;
    this.status = status;
  }
}

/**
 * Fetch an answer. Raises AnswerError with what is wrong and what to do, and the browser's AbortError.
 * @template T
 * @param {string} address
 * @param {{signal?: AbortSignal, fresh?: boolean, body?: unknown}} [options] `fresh` asks the server even if the answer is known
 * @returns {Promise<T>}
 */
export async function get(address, { signal, fresh = false, body } = {}) {
  if (carried) {
    const answer = carried[address];
    if (answer !== undefined) return /** @type {T} */ (answer);
    throw new AnswerError({ error: "This file does not hold that.", remedy: "Open the run with `astuner logview` to see it." }, 404);
  }
  if (body !== undefined) return /** @type {T} */ (await ask(address, signal, body));
  if (!fresh && cache.has(address)) return /** @type {T} */ (cache.get(address));
  return /** @type {T} */ (await askOnce(address, signal, fresh));
}

/** Ask for answers that will be wanted soon. @param {string[]} addresses */
export function prefetch(addresses) {
  for (const address of addresses) get(address).catch(() => {});
}

/** Join the request for an answer, or begin one; it is aborted when all who joined have aborted. @param {string} address @param {AbortSignal|undefined} signal @param {boolean} fresh */
function askOnce(address, signal, fresh) {
  const known = fresh ? undefined : asked.get(address);
  const request = known ?? begin(address);
  request.wanted += 1;
  signal?.addEventListener("abort", () => {
    request.wanted -= 1;
    if (request.wanted > 0) return;
    request.stop.abort();
    if (asked.get(address) === request) asked.delete(address);
  });
  return request.answer;
}

/** @param {string} address */
function begin(address) {
  const stop = new AbortController();
  const answer = ask(address, stop.signal, undefined).then((found) => {
    // An answer that was forgotten or asked for again meanwhile is older than what the page may show next.
    if (asked.get(address) === request) keep(address, found);
    return found;
  });
  const request = { answer, wanted: 0, stop };
  asked.set(address, request);
  const end = () => {
    if (asked.get(address) === request) asked.delete(address);
  };
  answer.then(end, end);
  return request;
}

/** @param {string} address @param {AbortSignal|undefined} signal @param {unknown} body */
async function ask(address, signal, body) {
  /** @type {RequestInit} */
  const request = { signal: signal ?? null, credentials: "same-origin", headers: { accept: "application/json" } };
  if (body !== undefined) {
    Object.assign(request, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  }
  let response;
  try {
    response = await fetch(address, request);
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    throw new AnswerError({ error: "The viewer's server does not answer.", remedy: "Start `astuner logview` again and reload this page." }, 0);
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok || answer === null) {
    const error = answer?.error ?? `The server answered with status ${response.status}.`;
    throw new AnswerError({ error, remedy: answer?.remedy ?? "Reload the page.", at: answer?.at }, response.status);
  }
  return answer;
}

/** @param {string} address @param {unknown} answer */
function keep(address, answer) {
  cache.delete(address);
  cache.set(address, answer);
  while (cache.size > CACHED) cache.delete(/** @type {string} */ (cache.keys().next().value));
}

/** Forget answers whose address starts so, also those under way: a live run has grown. @param {string} start */
export function forget(start) {
  for (const known of [cache, asked]) {
    for (const address of [...known.keys()]) if (address.startsWith(start)) known.delete(address);
  }
}

/**
 * Use an answer in a component. While another address is loading, the last answer stays, with `loading` true.
 * @template T
 * @param {string|null} address null asks nothing
 * @returns {{data: T|null, error: ApiError|null, loading: boolean, reload: () => void}}
 */
export function useAnswer(address) {
  const [state, setState] = useState(/** @type {{address: string|null, data: T|null, error: ApiError|null}} */ ({ address: null, data: null, error: null }));
  const [turn, setTurn] = useState(0);
  const fresh = useRef(false);
  useEffect(() => {
    if (address === null) return undefined;
    const stop = new AbortController();
    get(address, { signal: stop.signal, fresh: fresh.current }).then(
      (data) => stop.signal.aborted || setState({ address, data: /** @type {T} */ (data), error: null }),
      (problem) => {
        if (stop.signal.aborted) return;
        setState((old) => ({ address, data: old.data, error: describe(problem) }));
      },
    );
    fresh.current = false;
    return () => stop.abort();
  }, [address, turn]);
  const reload = () => {
    fresh.current = true;
    setTurn((value) => value + 1);
  };
  return { data: state.data, error: state.error, loading: address !== null && state.address !== address, reload };
}

/** @param {unknown} problem @returns {ApiError} */
export function describe(problem) {
  if (problem instanceof AnswerError) return problem.answer;
  return { error: problem instanceof Error ? problem.message : String(problem), remedy: "Reload the page." };
}

/**
 * Listen to the server's events until the returned function is called; an exported page has none.
 * @param {string|null} run only this run's events; null for all runs
 * @param {Record<string, (data: any) => void>} listeners by the event's name: run, step, episodes, index
 * @param {(connected: boolean) => void} [onState]
 */
export function listen(run, listeners, onState = () => {}) {
  if (carried) return () => {};
  const source = new EventSource(api(["events"], { run }));
  for (const [name, listener] of Object.entries(listeners)) {
    source.addEventListener(name, (event) => listener(JSON.parse(/** @type {MessageEvent} */ (event).data)));
  }
  // The browser connects again by itself; a short interruption is nobody's concern.
  let timer = 0;
  source.addEventListener("open", () => {
    clearTimeout(timer);
    onState(true);
  });
  source.addEventListener("error", () => {
    clearTimeout(timer);
    timer = setTimeout(() => onState(false), LOST_MS);
  });
  return () => {
    clearTimeout(timer);
    source.close();
  };
}
