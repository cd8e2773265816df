// @ts-check
/** Which blocks are in the page: those around the place that is looked at, within a budget of tokens. */

/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {import("./heights.js").Heights} Heights */

/** Tokens in the page at most, but for blocks that are in view. */
export const WINDOW_TOKENS = 3000;

/**
 * Return the blocks to draw, `[first, behind the last)`: all in view, then more on both sides while the budget lasts.
 * @param {Block[]} blocks
 * @param {Heights} heights of the blocks
 * @param {number} top of the view, in pixels
 * @param {number} view height of the view
 * @param {number} [budget] tokens
 * @returns {[number, number]}
 */
export function chooseWindow(blocks, heights, top, view, budget = WINDOW_TOKENS) {
  if (!blocks.length) return [0, 0];
  let first = heights.find(top);
  let last = heights.find(top + view);
  let used = blocks[last].end - blocks[first].start;
  let grows = true;
  while (grows) {
    grows = false;
    // Below first: reading goes down.
    if (last + 1 < blocks.length && used + count(blocks[last + 1]) <= budget) {
      last += 1;
      used += count(blocks[last]);
      grows = true;
    }
    if (first > 0 && used + count(blocks[first - 1]) <= budget) {
      first -= 1;
      used += count(blocks[first]);
      grows = true;
    }
  }
  return [first, last + 1];
}

/** @param {Block} block */
function count(block) {
  return block.end - block.start;
}

/**
 * Return the block that has a token.
 * @param {Block[]} blocks
 * @param {number} token
 */
export function findBlock(blocks, token) {
  let low = 0;
  let high = blocks.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks[middle].end <= token) low = middle + 1;
    else high = middle;
  }
  return low;
}
