// @ts-check
/**
 * The difference of two texts, word by word: Myers' algorithm in linear space.
 *
 * E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", Algorithmica 1 (1986), section 4b.
 */

/** @typedef {{kind: "same" | "removed" | "added", text: string}} Change */
/** @typedef {{a: string[], b: string[], keptA: boolean[], keptB: boolean[]}} Matching */

const WORDS = /\s+|[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu;

/** A stretch with more changes than this counts as replaced: the search is quadratic in them. */
const MOST_CHANGES = 1200;

/**
 * Split a text into words, runs of blanks and single signs, which joined are the text again.
 * @param {string} text
 * @returns {string[]}
 */
export function splitWords(text) {
  return text.match(WORDS) ?? [];
}

/**
 * Return what turns `before` into `after`; neighbouring parts of one kind are joined.
 * @param {string} before
 * @param {string} after
 * @returns {Change[]}
 */
export function diffWords(before, after) {
  const a = splitWords(before);
  const b = splitWords(after);
  const matching = { a, b, keptA: Array(a.length).fill(false), keptB: Array(b.length).fill(false) };
  matchRange(matching, 0, a.length, 0, b.length);
  /** @type {Change[]} */
  const changes = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && !matching.keptA[i]) append(changes, "removed", a[i++]);
    else if (j < b.length && !matching.keptB[j]) append(changes, "added", b[j++]);
    else {
      append(changes, "same", a[i++]);
      j += 1;
    }
  }
  return joinChanges(changes);
}

/**
 * Join changes between which only blanks stay: a phrase that was replaced reads as one.
 * @param {Change[]} changes
 * @returns {Change[]}
 */
function joinChanges(changes) {
  /** @type {Change[]} */
  const joined = [];
  let removed = "";
  let added = "";
  const flush = () => {
    if (removed) append(joined, "removed", removed);
    if (added) append(joined, "added", added);
    removed = added = "";
  };
  changes.forEach((change, at) => {
    const isBetween = change.kind === "same" && change.text.trim() === "" && (removed || added) && at + 1 < changes.length;
    if (change.kind !== "added" && (change.kind === "removed" || isBetween)) removed += change.text;
    if (change.kind !== "removed" && (change.kind === "added" || isBetween)) added += change.text;
    if (change.kind === "same" && !isBetween) {
      flush();
      append(joined, "same", change.text);
    }
  });
  flush();
  return joined;
}

/**
 * Return the share of `after` that stands in `before` too, in characters, from 0 to 1.
 * @param {Change[]} changes
 */
export function measureLikeness(changes) {
  let same = 0;
  let all = 0;
  for (const change of changes) {
    if (change.kind === "same") same += 2 * change.text.length;
    all += change.kind === "same" ? 2 * change.text.length : change.text.length;
  }
  return all ? same / all : 1;
}

/**
 * @param {Change[]} changes
 * @param {Change["kind"]} kind
 * @param {string} text
 */
function append(changes, kind, text) {
  const last = changes[changes.length - 1];
  if (last?.kind === kind) last.text += text;
  else changes.push({ kind, text });
}

/**
 * Mark the words that stay, between `a[i0:i1]` and `b[j0:j1]`.
 * @param {Matching} matching
 * @param {number} i0
 * @param {number} i1
 * @param {number} j0
 * @param {number} j1
 */
function matchRange(matching, i0, i1, j0, j1) {
  const { a, b, keptA, keptB } = matching;
  while (i0 < i1 && j0 < j1 && a[i0] === b[j0]) keptA[i0++] = keptB[j0++] = true;
  while (i0 < i1 && j0 < j1 && a[i1 - 1] === b[j1 - 1]) keptA[--i1] = keptB[--j1] = true;
  if (i0 === i1 || j0 === j1) return;
  const middle = findMiddle(a, b, i0, i1, j0, j1);
  if (!middle) return;
  matchRange(matching, i0, middle.x, j0, middle.y);
  matchRange(matching, middle.x, i1, middle.y, j1);
}

/**
 * Return a point on a shortest way through the box, found from both corners at once; null if it takes too many changes.
 * @param {string[]} a
 * @param {string[]} b
 * @param {number} i0
 * @param {number} i1
 * @param {number} j0
 * @param {number} j1
 * @returns {{x: number, y: number} | null}
 */
function findMiddle(a, b, i0, i1, j0, j1) {
  const n = i1 - i0;
  const m = j1 - j0;
  const most = Math.min(Math.ceil((n + m) / 2), MOST_CHANGES);
  const delta = n - m;
  const size = 2 * most + 3;
  // Furthest x on each diagonal k = x - y; index k + most + 1. Backward ones count from the far corner.
  const forward = new Int32Array(size);
  const backward = new Int32Array(size);
  for (let d = 0; d <= most; d += 1) {
    for (let k = -d; k <= d; k += 2) {
      const at = k + most + 1;
      let x = k === -d || (k !== d && forward[at - 1] < forward[at + 1]) ? forward[at + 1] : forward[at - 1] + 1;
      while (x < n && x - k < m && a[i0 + x] === b[j0 + x - k]) x += 1;
      forward[at] = x;
      const opposite = delta - k;
      if (delta % 2 !== 0 && Math.abs(opposite) < d && x + backward[opposite + most + 1] >= n) return inside(x, x - k);
    }
    for (let k = -d; k <= d; k += 2) {
      const at = k + most + 1;
      let x = k === -d || (k !== d && backward[at - 1] < backward[at + 1]) ? backward[at + 1] : backward[at - 1] + 1;
      while (x < n && x - k < m && a[i1 - 1 - x] === b[j1 - 1 - (x - k)]) x += 1;
      backward[at] = x;
      const opposite = delta - k;
      if (delta % 2 === 0 && Math.abs(opposite) <= d && x + forward[opposite + most + 1] >= n) return inside(n - x, m - (x - k));
    }
  }
  return null;

  /**
   * @param {number} x
   * @param {number} y
   */
  function inside(x, y) {
    if (x < 0 || y < 0 || x > n || y > m || (x === 0 && y === 0) || (x === n && y === m)) return null;
    return { x: i0 + x, y: j0 + y };
  }
}
