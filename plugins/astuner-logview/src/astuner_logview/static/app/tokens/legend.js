// @ts-check
/** The scale of the colours, with its ends in numbers. */
import { html } from "../html.js";
import { number, safe } from "../format.js";

/** @typedef {import("./colouring.js").Colouring} Colouring */

/** @param {{colouring: Colouring}} props */
export function Legend({ colouring }) {
  const { scale, categories, measure } = colouring;
  if (!scale) {
    return html`<ul class="token-legend">${categories.map((one) => html`<li key=${one.label}><span class=${`t ${one.className} sample`} aria-hidden="true"></span>${safe(one.label)}</li>`)}</ul>`;
  }
  const [low, high] = [writeEnd(scale.low, scale.high), writeEnd(scale.high, scale.low)];
  const unit = measure?.unit ? ` ${measure.unit}` : "";
  const text = `Colours from ${number(scale.low, 3)} to ${number(scale.high, 3)}${unit}; ${number(scale.centre, 3)} has no colour. Values beyond the ends have their colour.`;
  return html`<div class="token-legend" role="img" aria-label=${text} title=${text}>
    <span class="number">${low}</span>
    <span class="ramp" aria-hidden="true">${scale.bins.map((bin) => html`<span key=${bin.className} class=${`t ${bin.className}`} title=${`${number(bin.from, 3)} to ${number(bin.to, 3)}`}></span>`)}</span>
    <span class="number">${high}${unit}</span>
  </div>`;
}

/**
 * Write an end of a scale; next to the other end, a tiny one is zero.
 * @param {number} end
 * @param {number} other
 */
function writeEnd(end, other) {
  return Math.abs(end) < Math.abs(other) / 200 ? "0" : number(end, 3);
}
