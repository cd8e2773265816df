// @ts-check
/** The tree of an episode's calls as a drawing: roots at the left, branches below each other. */

/** @typedef {import("../types.js").CallRow} CallRow */
/** @typedef {import("../types.js").Path} Path */
/** @typedef {{call: number, row: number, depth: number}} Node */
/** @typedef {{from: Node, to: Node}} Edge */
/** @typedef {{nodes: Node[], edges: Edge[], rows: number, depth: number}} Layout */

/**
 * Place the calls: a call stands one to the right of its parent, the first child in its row, further ones in new rows.
 * @param {Pick<CallRow, "index"|"parent">[]} calls parents come before their children
 * @returns {Layout}
 */
export function layOutCalls(calls) {
  /** @type {Map<number|null, number[]>} */
  const children = new Map();
  const known = new Set(calls.map((call) => call.index));
  for (const { index, parent } of calls) {
    // A parent that is not there, in a damaged file, makes a root.
    const under = parent !== null && known.has(parent) ? parent : null;
    children.set(under, [...(children.get(under) ?? []), index]);
  }
  /** @type {Map<number, Node>} */
  const placed = new Map();
  let rows = 0;
  /** @type {{call: number, depth: number, row: number|null}[]} */
  const open = (children.get(null) ?? []).map((call) => ({ call, depth: 0, row: null })).reverse();
  while (open.length) {
    const { call, depth, row } = /** @type {{call: number, depth: number, row: number|null}} */ (open.pop());
    const node = { call, depth, row: row ?? rows++ };
    placed.set(call, node);
    const below = children.get(call) ?? [];
    // The last pushed is placed first: the first child goes on in this row, before its siblings open new ones.
    for (let at = below.length - 1; at >= 0; at -= 1) open.push({ call: below[at], depth: depth + 1, row: at === 0 ? node.row : null });
  }
  const nodes = [...placed.values()];
  /** @type {Edge[]} */
  const edges = [];
  for (const { index, parent } of calls) {
    const from = parent === null ? undefined : placed.get(parent);
    const to = placed.get(index);
    if (from && to) edges.push({ from, to });
  }
  return { nodes, edges, rows, depth: nodes.reduce((most, node) => Math.max(most, node.depth + 1), 0) };
}

/**
 * Return the path that is shown: the one asked for, else the longest main one, else the first.
 * @param {Path[]} paths
 * @param {string} leaf of the address, may be empty
 * @returns {Path | undefined}
 */
export function choosePath(paths, leaf) {
  const asked = leaf === "" ? undefined : paths.find((path) => path.leaf === Number(leaf));
  if (asked) return asked;
  const main = paths.filter((path) => path.main);
  return (main.length ? main : paths).reduce(
    (/** @type {Path|undefined} */ best, path) => (best === undefined || path.tokens > best.tokens ? path : best),
    undefined,
  );
}

/**
 * Return a path that has a call: the one shown if it does, else the longest.
 * @param {Path[]} paths
 * @param {number} call
 * @param {Path | undefined} current
 */
export function choosePathOf(paths, call, current) {
  if (current?.calls.includes(call)) return current;
  return choosePath(paths.filter((path) => path.calls.includes(call)), "");
}
