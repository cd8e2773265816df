// @ts-check
/** The address of a page: `#/path?query`, as signals. All that a page shows follows from it. */
import { computed, signal } from "./html.js";

/** @typedef {string|number|boolean|null|undefined} QueryValue */

const hash = signal(location.hash);

/** Start addresses of an exported page come from its answers, not from the location. @param {string} address */
export function startAt(address) {
  if (!location.hash) location.hash = address;
  hash.value = location.hash || address;
}

/**
 * Split an address into decoded parts of its path and its query.
 * @param {string} address `#/r/RUN/e/EP?turn=3`
 */
export function parseAddress(address) {
  const text = address.replace(/^#\/?/, "");
  const mark = text.indexOf("?");
  const path = mark < 0 ? text : text.slice(0, mark);
  const parts = path.split("/").filter((part) => part !== "").map(decode);
  return { parts, query: new URLSearchParams(mark < 0 ? "" : text.slice(mark + 1)) };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address as written, with its `#`. */
export const currentAddress = computed(() => hash.value);

/** The decoded parts of the path and the query. */
export const route = computed(() => parseAddress(hash.value));

/** The query's value of a key, as text: `query("filter")`. @param {string} key @param {string} [otherwise] */
export function query(key, otherwise = "") {
  return route.value.query.get(key) ?? otherwise;
}

/**
 * Return an address: parts are encoded; query values that are null, undefined, false or empty are left out.
 * @param {(string|number)[]} parts
 * @param {Record<string, QueryValue|QueryValue[]>} [values]
 */
export function link(parts, values = {}) {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(values)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== false && item !== "") search.append(key, String(item));
    }
  }
  const text = search.toString();
  return `#/${parts.map((part) => encodeURIComponent(String(part))).join("/")}${text ? `?${text}` : ""}`;
}

/**
 * Go to an address.
 * @param {string} address
 * @param {{replace?: boolean}} [how] `replace` leaves no entry in the history
 */
export function navigate(address, how = {}) {
  if (how.replace) history.replaceState(null, "", address);
  else location.hash = address;
  // The browser's event comes later; a key that is pressed before it starts from here.
  hash.value = location.hash;
}

/**
 * Change values of the query and keep the rest; see `link` for values that are left out.
 * @param {Record<string, QueryValue|QueryValue[]>} changes
 * @param {{replace?: boolean}} [how] the default replaces: typing into a filter is not history
 */
export function setQuery(changes, how = { replace: true }) {
  const { parts, query: old } = route.peek();
  /** @type {Record<string, QueryValue|QueryValue[]>} */
  const values = {};
  for (const key of new Set(old.keys())) values[key] = old.getAll(key);
  navigate(link(parts, { ...values, ...changes }), how);
}

/** Addresses of the pages, one function each. */
export const to = {
  runs: () => "#/",
  compare: (/** @type {string[]} */ runs) => link(["compare"], { run: runs }),
  configuration: () => "#/configuration",
  run: (/** @type {string} */ run, /** @type {Record<string, QueryValue>} */ values = {}) => link(["r", run], values),
  episodes: (/** @type {string} */ run, /** @type {Record<string, QueryValue>} */ values = {}) => link(["r", run, "episodes"], values),
  group: (/** @type {string} */ run, /** @type {string} */ split, /** @type {number} */ step, /** @type {string} */ task) =>
    link(["r", run, "g", split, step, task]),
  worst: (/** @type {string} */ run, /** @type {number} */ step) => link(["r", run, "s", step, "worst"]),
  episode: (/** @type {string} */ run, /** @type {string} */ episode, /** @type {Record<string, QueryValue>} */ values = {}) =>
    link(["r", run, "e", episode], values),
  tokens: (/** @type {string} */ run, /** @type {string} */ episode, /** @type {Record<string, QueryValue>} */ values = {}) =>
    link(["r", run, "t", episode], values),
  task: (/** @type {string} */ run, /** @type {string} */ task) => link(["r", run, "task", task]),
  tasks: (/** @type {string} */ run, /** @type {Record<string, QueryValue>} */ values = {}) => link(["r", run, "tasks"], values),
  judge: (/** @type {string} */ run, /** @type {Record<string, QueryValue>} */ values = {}) => link(["r", run, "judge"], values),
  why: (/** @type {string} */ run) => link(["r", run, "why"]),
};

addEventListener("hashchange", () => {
  hash.value = location.hash;
});
