// @ts-check
/** The whole stream in a strip: which column a token is in, and which columns a strip of any width shows. */

/** @typedef {import("../types.js").Stream} Stream */

/**
 * Return the first and the last column, behind the end, of one pixel of a strip.
 * @param {number} pixel
 * @param {number} pixels width of the strip
 * @param {number} columns
 * @returns {[number, number]}
 */
export function columnsAt(pixel, pixels, columns) {
  const from = Math.floor((pixel * columns) / pixels);
  return [from, Math.max(from + 1, Math.floor(((pixel + 1) * columns) / pixels))];
}

/**
 * Return the value of columns that differs most from the centre: a lone remarkable token must not vanish in a mean.
 * @param {(number|null)[]} values
 * @param {number} from
 * @param {number} to
 * @param {number} centre
 */
export function pickStrongest(values, from, to, centre) {
  /** @type {number|null} */
  let strongest = null;
  for (let column = from; column < to; column += 1) {
    const value = values[column];
    if (value === null || value === undefined) continue;
    if (strongest === null || Math.abs(value - centre) > Math.abs(strongest - centre)) strongest = value;
  }
  return strongest;
}

/**
 * Return the token at a place of the strip, from 0 to 1.
 * @param {number} share
 * @param {number} tokens
 */
export function tokenAt(share, tokens) {
  return Math.max(0, Math.min(tokens - 1, Math.floor(share * tokens)));
}
