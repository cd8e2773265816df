// @ts-check
/** A small curve for a table's cell, as SVG. */
import { html } from "../html.js";
import { fixed } from "../format.js";

/** @param {{points: [number, number|null][], width?: number, height?: number, label?: string}} props */
export function Curve({ points, width = 96, height = 22, label = "Reward" }) {
  const known = /** @type {[number, number][]} */ (points.filter(([, value]) => value !== null));
  if (known.length < 2) return html`<span class="faint">–</span>`;
  const [steps, values] = [known.map(([step]) => step), known.map(([, value]) => value)];
  const [left, right] = [Math.min(...steps), Math.max(...steps)];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const x = (/** @type {number} */ step) => 2 + ((step - left) / (right - left || 1)) * (width - 5);
  const y = (/** @type {number} */ value) => height - 3 - ((value - low) / (high - low || 1)) * (height - 6);
  const path = known.map(([step, value], at) => `${at ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  const last = /** @type {[number, number]} */ (known.at(-1));
  const title = `${label} from ${fixed(values[0])} to ${fixed(last[1])}, lowest ${fixed(low)}, highest ${fixed(high)}`;
  return html`<svg class="spark" role="img" aria-label=${title} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`}>
    <title>${title}</title><path d=${path} /><circle cx=${x(last[0])} cy=${y(last[1])} r="2" />
  </svg>`;
}
