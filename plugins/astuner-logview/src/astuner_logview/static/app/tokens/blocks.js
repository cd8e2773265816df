// @ts-check
/** The parts of a stream that are drawn as one: pieces of a segment that end at a line's end where one is near, else at a word's. */

/** @typedef {import("../types.js").Segment} Segment */
/** @typedef {import("../types.js").Tokens} Tokens */
/**
 * @typedef {object} Block
 * @property {number} start first token
 * @property {number} end behind the last token
 * @property {number} segment index of its segment
 * @property {number} chunk index of the chunk that has its tokens
 * @property {boolean} isHead whether the header of its segment stands above it
 * @property {boolean} isLoaded whether its tokens are known, so that it was cut at lines
 */

/** Tokens of a block: small enough that the window ends near its limit, large enough that few line breaks are forced. */
export const BLOCK_TOKENS = 512;

/**
 * Cut the part of a stream that lies in one chunk into blocks.
 * @param {Segment[]} segments in order, without gaps
 * @param {number} index of the chunk
 * @param {number} chunkTokens tokens of a chunk
 * @param {number} tokens of the whole stream
 * @param {Tokens | undefined} chunk the tokens, once known
 * @returns {Block[]}
 */
export function cutChunk(segments, index, chunkTokens, tokens, chunk) {
  const from = index * chunkTokens;
  const to = Math.min(from + chunkTokens, tokens);
  /** @type {Block[]} */
  const blocks = [];
  for (let segment = findSegment(segments, from); segment < segments.length && segments[segment].start < to; segment += 1) {
    const { start, end } = segments[segment];
    let at = Math.max(start, from);
    const stop = Math.min(end, to);
    while (at < stop) {
      const next = chunk ? findEnd(chunk, at, stop) : Math.min(stop, at + BLOCK_TOKENS);
      blocks.push({ start: at, end: next, segment, chunk: index, isHead: at === start, isLoaded: chunk !== undefined });
      at = next;
    }
  }
  return blocks;
}

/**
 * Return the index of the segment that has a token.
 * @param {Segment[]} segments
 * @param {number} token
 */
export function findSegment(segments, token) {
  let low = 0;
  let high = segments.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (segments[middle].end <= token) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Return where the block that starts at `at` ends: behind the last newline of its tokens, else before the last word, else at its full size.
 * @param {Tokens} chunk
 * @param {number} at
 * @param {number} stop
 */
function findEnd(chunk, at, stop) {
  if (stop - at <= BLOCK_TOKENS) return stop;
  const full = at + BLOCK_TOKENS;
  const text = (/** @type {number} */ token) => chunk.texts?.[token - chunk.start] ?? "";
  for (let token = full - 1; token > at + BLOCK_TOKENS / 4; token -= 1) {
    if (text(token).endsWith("\n")) return token + 1;
  }
  for (let token = full - 1; token > full - BLOCK_TOKENS / 8; token -= 1) {
    if (/\s$/.test(text(token)) || /^\s/.test(text(token + 1))) return token + 1;
  }
  return full;
}
