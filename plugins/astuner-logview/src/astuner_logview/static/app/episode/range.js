// @ts-check
/** Part of a long list: some items around one of them, with buttons for more. */
import { html, useEffect, useState } from "../html.js";
import { count } from "../format.js";

/** Turns that are drawn at once, and that a button adds. */
const SIZE = 40;

/** @typedef {{from: number, to: number, total: number, grow: (side: "before"|"after") => void}} TurnRange */

/**
 * Use the part of a list to draw: the start, or what is around the focus if that lies elsewhere.
 * @param {number} total
 * @param {number} focus -1 if none
 * @returns {TurnRange}
 */
export function useRange(total, focus) {
  const [range, setRange] = useState(() => around(total, focus));
  const isOutside = focus >= 0 && (focus < range.from || focus >= range.to);
  const shown = isOutside || range.to > total || (total > 0 && range.to === 0) ? around(total, focus) : range;
  useEffect(() => {
    if (shown !== range) setRange(shown);
  }, [shown]);
  const grow = (/** @type {"before"|"after"} */ side) =>
    setRange({ from: side === "before" ? Math.max(0, shown.from - SIZE) : shown.from, to: side === "after" ? Math.min(total, shown.to + SIZE) : shown.to });
  return { ...shown, total, grow };
}

/** @param {number} total @param {number} focus */
function around(total, focus) {
  const from = Math.max(0, Math.min(Math.max(0, focus) - SIZE / 2, total - SIZE));
  return { from, to: Math.min(total, from + SIZE) };
}

/** The button that shows more before or after; nothing if there is no more. @param {{range: TurnRange, side: "before"|"after", row?: number}} props */
export function Range({ range, side, row }) {
  const left = side === "before" ? range.from : range.total - range.to;
  if (left <= 0) return null;
  return html`<p class="range" style=${row ? { gridRow: row } : undefined}><button type="button" class="quiet" onClick=${() => range.grow(side)}>Show ${count(Math.min(SIZE, left))} of ${count(left)} ${side === "before" ? "earlier" : "more"} turns</button></p>`;
}
