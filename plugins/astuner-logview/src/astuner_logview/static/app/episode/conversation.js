// @ts-check
/** The turns of one path, in order. */
import { html } from "../html.js";
import { Range, useRange } from "./range.js";

/** @typedef {import("../types.js").CallRow} CallRow */

/** @param {{calls: CallRow[], turn: number|null, draw: (call: CallRow) => any}} props */
export function Conversation({ calls, turn, draw }) {
  const range = useRange(calls.length, calls.findIndex((call) => call.index === turn));
  return html`<div class="conversation">
    <${Range} range=${range} side="before" />
    ${calls.slice(range.from, range.to).map(draw)}
    <${Range} range=${range} side="after" />
  </div>`;
}
