// @ts-check
/** The start of a long text; a character of two code units is never split. */

/**
 * Return the start of a text and how many characters are left out.
 * @param {string} text
 * @param {number} limit most characters of the start
 * @param {number} [lines] most lines of the start
 * @returns {{start: string, left: number}}
 */
export function cutText(text, limit, lines = Infinity) {
  let end = Math.min(limit, text.length);
  if (lines !== Infinity) {
    let at = -1;
    for (let seen = 0; seen < lines && at < end; seen += 1) {
      at = text.indexOf("\n", at + 1);
      if (at < 0) break;
    }
    if (at >= 0 && at < end) end = at;
  }
  // A few characters more are shown rather than hidden behind a button.
  if (text.length - end < 40 && !text.slice(end).includes("\n")) end = text.length;
  else if (isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
  return { start: text.slice(0, end), left: text.length - end };
}

/** @param {number} code */
function isHighSurrogate(code) {
  return code >= 0xd800 && code <= 0xdbff;
}
