// @ts-check
/** One turn of one sibling, in its row. */
import { html, classes } from "../html.js";
import { safe } from "../format.js";
import { Badge } from "../parts/badge.js";
import { MessageView } from "../episode/message.js";
import { addressWhole } from "../episode/whole_message.js";

/** @typedef {import("../types.js").Turn} Turn */

/** Characters of a message that a narrow column shows at first. */
const CELL_TEXT = 3000;

/** @param {{run: string, id: string, turn: Turn, column: number, row: number, isFirst: boolean, withMessages: boolean, isFocused: boolean, isOnlyAgent: boolean}} props `isFirst` if the siblings part in it */
export function TurnCell({ run, id, turn, column, row, isFirst, withMessages, isFocused, isOnlyAgent }) {
  const end = turn.finish_reason;
  const note = end && end !== "stop" && end !== "tool_calls" && html`<p><${Badge} tone="warn">${end === "length" ? "cut off at the length limit" : safe(end)}<//></p>`;
  return html`<div class=${classes("turn-cell", isFocused && "focused")} style=${{ gridColumn: column, gridRow: row }}>
    ${withMessages && turn.messages.map((message, at) => html`<${MessageView} key=${at} message=${message} whole=${addressWhole(run, id, turn.call, message, at)} limit=${CELL_TEXT} />`)}
    ${turn.reply
      ? html`<${MessageView} message=${turn.reply} agent=${isOnlyAgent ? null : turn.agent} whole=${addressWhole(run, id, turn.call, turn.reply, null)} shared=${isFirst ? turn.shared : null} limit=${CELL_TEXT} isReply=${true} note=${note} />`
      : html`<p class="notice warn">The model gave no answer.</p>`}
  </div>`;
}
