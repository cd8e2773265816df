// @ts-check
/** The steps of a run in a table: each leads to its episodes and to its worst group. */
import { html, useEffect, useState } from "../html.js";
import { count, duration, fixed, percent, safe, short } from "../format.js";
import { isIndexing } from "../parts/indexing.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { sortRows, Table } from "../parts/table.js";
import { to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Steps} Steps */
/** @typedef {import("../types.js").StepRow} StepRow */

const FIRST = 15;

/** @param {{run: string, tick: number}} props */
export function StepTable({ run, tick }) {
  const [all, setAll] = useState(false);
  const [sort, setSort] = useState(/** @type {{key: string, order: "asc"|"desc"}} */ ({ key: "step", order: "desc" }));
  const answer = /** @type {ReturnType<typeof useAnswer<Steps>>} */ (useAnswer(api(["runs", run, "steps"])));
  useEffect(() => {
    if (tick) answer.reload();
  }, [tick]);
  return html`<section class="section" aria-labelledby="steps-title">
    <h2 id="steps-title">Steps</h2>
    <${Answer} answer=${answer} what="Reading steps">${(/** @type {Steps} */ data) => {
      if (!data.steps.length) return html`<${Empty} title=${isIndexing(run) ? "No step is indexed yet" : "No step has finished"} />`;
      const rows = order(data.steps, sort);
      return html`<${Table} caption="Steps" columns=${columns(run, data.steps.some((row) => row.split !== "train"))} rows=${all ? rows : rows.slice(0, FIRST)} sorted
          rowKey=${(/** @type {StepRow} */ row) => `${row.split} ${row.step}`} sort=${sort.key} order=${sort.order} onSort=${(/** @type {string} */ key, /** @type {"asc"|"desc"} */ way) => setSort({ key, order: way })} />
        ${rows.length > FIRST && html`<div><button type="button" class="quiet" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Show fewer" : `Show all ${count(rows.length)} steps`}</button></div>`}
        <${Problems} problems=${data.problems} />`;
    }}<//>
  </section>`;
}

/** @param {StepRow[]} rows @param {{key: string, order: "asc"|"desc"}} sort */
function order(rows, sort) {
  const by = columns("", true).find((column) => column.key === sort.key)?.by ?? ((/** @type {StepRow} */ row) => row.step);
  return sortRows(rows, by, sort.order);
}

/** @param {string} run @param {boolean} splits @returns {import("../parts/table.js").Column<StepRow>[]} */
function columns(run, splits) {
  const filter = (/** @type {StepRow} */ row, more = "") => to.episodes(run, { filter: `${row.split === "train" ? "split:train " : `split:${row.split} `}step:${row.step}${more}` });
  return [
    { key: "step", title: "Step", lead: true, by: (row) => row.step, cell: (row) => html`<a href=${filter(row)}>${splits && row.split !== "train" ? `${safe(row.split)} ` : ""}${row.step}</a>` },
    { key: "reward", title: "Reward", numeric: true, by: (row) => row.reward_mean, cell: (row) => html`<strong>${fixed(row.reward_mean)}</strong>` },
    { key: "range", title: "Lowest to highest", numeric: true, cell: (row) => html`<span class="muted">${fixed(row.reward_min, 2)} to ${fixed(row.reward_max, 2)}</span>` },
    { key: "success", title: "Success", numeric: true, by: (row) => row.success_rate, cell: (row) => percent(row.success_rate) },
    { key: "episodes", title: "Episodes", numeric: true, by: (row) => row.episodes, cell: (row) => count(row.episodes) },
    { key: "failed", title: "Failed", numeric: true, by: (row) => row.failed, cell: (row) => (row.failed ? html`<a class="bad" href=${filter(row, " failed")}>${count(row.failed)}</a>` : html`<span class="faint">0</span>`) },
    { key: "signal", title: "Groups without signal", numeric: true, by: (row) => row.without_signal, cell: (row) => html`<span>${count(row.without_signal)}<span class="faint"> / ${count(row.groups)}</span></span>` },
    { key: "tokens", title: "Tokens", numeric: true, by: (row) => row.tokens, cell: (row) => short(row.tokens) },
    { key: "time", title: "Time", numeric: true, by: (row) => row.time_s, cell: (row) => html`<span class="nowrap">${duration(row.time_s)}</span>` },
    { key: "worst", title: "Worst group", css: "worst-cell", by: (row) => row.worst?.reward_mean ?? null, cell: (row) => (row.worst ? html`<a class="truncate" href=${to.group(run, row.split, row.step, row.worst.task)}>${safe(row.worst.task)}</a> <span class="muted">${fixed(row.worst.reward_mean, 2)}</span>` : html`<span class="faint">–</span>`) },
  ];
}
