// @ts-check
/** An episode as a line of a list. */
import { html, classes } from "../html.js";
import { count, duration, fixed, nameRepeat, nameTask, safe, short, signed } from "../format.js";
import { Badge, Outcome } from "../parts/badge.js";
import { Snippet, Text } from "../parts/text.js";
import { to } from "../route.js";

/** @typedef {import("../types.js").EpisodeRow} EpisodeRow */

/** Pixels; style/pages.css draws lines of this height. */
export const ROW_HEIGHT = 52;

/** @type {[string, string, string, boolean][]} key, title, class, numeric */
const COLUMNS = [
  ["step", "Step", "c-step", true], ["task", "Task", "c-task", false], ["", "Outcome", "c-outcome", false], ["reward", "Reward", "c-reward", true],
  ["advantage", "Advantage", "c-advantage", true], ["turns", "Turns", "c-turns", true], ["tokens", "Tokens", "c-tokens", true], ["duration", "Time", "c-time", true],
];

/** @param {{sort: string, order: "asc"|"desc", onSort: (key: string, order: "asc"|"desc") => void}} props */
export function EpisodeHead({ sort, order, onSort }) {
  return html`<div class="episode-line head" role="row">${COLUMNS.map(([key, title, css, numeric]) => {
    const active = key !== "" && key === sort;
    return html`<div key=${title} role="columnheader" class=${classes(css, numeric && "number")} aria-sort=${active ? (order === "asc" ? "ascending" : "descending") : undefined}>
      ${key ? html`<button type="button" onClick=${() => onSort(key, active && order === "desc" ? "asc" : "desc")}>${title}<span class="sort-mark" aria-hidden="true">${active ? (order === "asc" ? "↑" : "↓") : ""}</span></button>` : title}</div>`;
  })}</div>`;
}

/** @param {{run: string, row: EpisodeRow|undefined, index: number, current: boolean, showSplit: boolean, onPick: (index: number) => void}} props */
export function EpisodeLine({ run, row, index, current, showSplit, onPick }) {
  if (!row) return html`<div class="episode-line waiting" role="row" aria-rowindex=${index + 2}><div role="cell" class="faint">…</div></div>`;
  const away = Math.sign(row.advantage ?? 0);
  return html`<div class=${classes("episode-line", current && "current")} role="row" aria-rowindex=${index + 2} aria-current=${current ? "true" : undefined} onPointerDown=${() => onPick(index)}>
    <div role="cell" class="c-step number"><a href=${to.group(run, row.split, row.step, row.task)} title="Open the group">${row.step}</a></div>
    <div role="cell" class="c-task">
      <div class="row-one"><a class="truncate" href=${to.episode(run, row.id)} title=${safe(row.id)}>${nameTask(row.task)}</a><span class="faint small nowrap">${nameRepeat(row.repeat)}</span>
        ${showSplit && row.split !== "train" && html`<${Badge}>${safe(row.split)}<//>`}${row.agents.length > 1 && html`<span class="faint small truncate">${row.agents.map(safe).join(", ")}</span>`}</div>
      <div class="row-two truncate">${row.snippet ? html`<${Snippet} snippet=${row.snippet} />` : html`<${Text} text=${row.query ?? ""} />`}</div>
    </div>
    <div role="cell" class="c-outcome"><${Outcome} episode=${row} />
      ${row.findings.map((finding) => html`<${Badge} key=${finding} tone="warn" title="Found by a detector">${safe(finding)}<//>`)}
      ${row.lost.length > 0 && html`<${Badge} title=${`Not all tokens are trained: ${row.lost.join(", ")}`}>${safe(row.lost[0]?.replaceAll("_", " "))}${row.lost.length > 1 ? ` +${row.lost.length - 1}` : ""}<//>`}</div>
    <div role="cell" class="c-reward number"><strong>${row.reward === null ? html`<span class="faint">none</span>` : fixed(row.reward)}</strong></div>
    <div role="cell" class=${classes("c-advantage number", away > 0 ? "good" : away < 0 ? "bad" : "faint")}>${signed(row.advantage, 2)}</div>
    <div role="cell" class="c-turns number">${count(row.turns)}</div>
    <div role="cell" class="c-tokens number" title=${`${count(row.tokens)} sampled, ${count(row.trained)} trained`}>${short(row.tokens)}</div>
    <div role="cell" class="c-time number nowrap">${duration(row.duration_s)}</div>
  </div>`;
}
