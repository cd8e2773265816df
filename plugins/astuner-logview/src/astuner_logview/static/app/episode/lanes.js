// @ts-check
/** Several agents side by side: a column for each, a row for each call in the order in which they were made. */
import { html, useMemo } from "../html.js";
import { plural, safe } from "../format.js";
import { Badge } from "../parts/badge.js";
import { orderCalls } from "./lane_order.js";
import { Range, useRange } from "./range.js";

/** @typedef {import("../types.js").Episode} Episode */
/** @typedef {import("../types.js").CallRow} CallRow */

/** @param {{episode: Episode, turn: number|null, draw: (call: CallRow) => any}} props */
export function Lanes({ episode, turn, draw }) {
  const { lanes, calls } = episode;
  const rows = useMemo(() => orderCalls(lanes), [lanes]);
  const byIndex = useMemo(() => new Map(calls.map((call) => [call.index, call])), [calls]);
  const range = useRange(rows.length, rows.findIndex((row) => row.call === turn));
  return html`<div class="lanes-scroll" tabindex="0" role="region" aria-label="Agents side by side">
    <div class="lanes" style=${{ gridTemplateColumns: `repeat(${lanes.length}, minmax(var(--lane), 1fr))` }}>
      ${lanes.map((lane, at) => html`<header key=${at} class="lane-head" style=${{ gridColumn: at + 1 }}><h2>${safe(lane.agent)}</h2>
        <span class="muted small">${plural(lane.calls.length, "call")}</span>${!lane.trained && html`<${Badge} tone="warn">not trained<//>`}
        ${lane.target_tag && lane.target_tag !== lane.agent && html`<${Badge} title="Target tag">${safe(lane.target_tag)}<//>`}</header>`)}
      <${Range} range=${range} side="before" />
      ${rows.slice(range.from, range.to).map((row, at) => {
        const call = byIndex.get(row.call);
        return call && html`<div key=${row.call} class="lane-cell" style=${{ gridColumn: row.lane + 1, gridRow: at + 3 }}>${draw(call)}</div>`;
      })}
      <${Range} range=${range} side="after" row=${range.to - range.from + 3} />
    </div>
  </div>`;
}
