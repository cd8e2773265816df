// @ts-check
/** The tasks of a run, those first whose reward changed most. */
import { html, useMemo, useState } from "../html.js";
import { count, fixed, nameTask, percent, plural, safe, signed } from "../format.js";
import { FilterBox } from "../parts/filter.js";
import { IndexedShare, isIndexing, useIndexGrowth } from "../parts/indexing.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { Table, sortRows } from "../parts/table.js";
import { query, setQuery, to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Tasks} Tasks */
/** @typedef {import("../types.js").TaskRow} TaskRow */

/** Tasks that are asked for and sorted; rows that are drawn, and that a button adds. */
const LIMIT = 2000;
const DRAWN = 200;

/** @param {{run: string, parts: string[]}} props */
export default function TasksPage({ run }) {
  const filter = query("filter");
  const answer = /** @type {ReturnType<typeof useAnswer<Tasks>>} */ (useAnswer(api(["runs", run, "tasks"], { filter, limit: LIMIT })));
  useIndexGrowth(answer.reload, [run, filter]);
  return html`<div class="page tasks-page">
    <header class="page-head"><h1>Tasks</h1><div class="row"><${IndexedShare} run=${run} />${answer.data && html`<p class="muted">${plural(answer.data.total, "task")}</p>`}</div></header>
    <${FilterBox} run=${run} label="Filter of tasks" placeholder="task:… reward<0.5, or words" error=${filter ? answer.error : null} value=${filter} onChange=${(/** @type {string} */ text) => setQuery({ filter: text })} />
    <${Answer} answer=${answer} what="Loading tasks">${(/** @type {Tasks} */ data) => html`<${Rows} run=${run} data=${data} />`}<//>
  </div>`;
}

/** @param {{run: string, data: Tasks}} props */
function Rows({ run, data }) {
  const [most, setMost] = useState(DRAWN);
  const table = columns(run);
  const sort = query("sort", "change");
  const order = /** @type {"asc"|"desc"} */ (query("order", "desc"));
  const by = table.find((column) => column.key === sort)?.by;
  const rows = useMemo(() => (by ? sortRows(data.tasks, by, order) : data.tasks), [data, sort, order]);
  if (!rows.length && isIndexing(run)) return html`<${Empty} title="No task is indexed yet">They appear here as they are indexed.<//>`;
  if (!rows.length) return html`<${Empty} title=${query("filter") ? "No task matches" : "No task has been played yet"} />`;
  return html`
    <${Problems} problems=${data.problems} />
    ${data.next && html`<p class="notice warn">Of ${count(data.total)} tasks, the first ${count(rows.length)} by name are listed. A filter chooses others.</p>`}
    <${Table} caption="Tasks" rows=${rows.slice(0, most)} rowKey=${(/** @type {TaskRow} */ row) => row.task} sort=${sort} order=${order} sorted=${true} columns=${table}
      onSort=${(/** @type {string} */ key, /** @type {"asc"|"desc"} */ way) => setQuery({ sort: key, order: way })} />
    ${rows.length > most && html`<p class="row"><button type="button" onClick=${() => setMost(most + DRAWN)}>Show more</button><span class="muted small">${count(most)} of ${count(rows.length)}</span></p>`}
  `;
}

/** @param {string} run @returns {import("../parts/table.js").Column<TaskRow>[]} */
function columns(run) {
  return [
    { key: "task", title: "Task", lead: true, by: (row) => row.task, cell: (row) => html`<a href=${to.task(run, row.task)} title=${safe(row.task)}>${nameTask(row.task)}</a>` },
    { key: "query", title: "Query", css: "query-cell", cell: (row) => html`<span class="truncate muted" title=${safe(row.query)}>${safe(row.query)}</span>` },
    { key: "plays", title: "Plays", numeric: true, by: (row) => row.plays, cell: (row) => count(row.plays) },
    { key: "first", title: "First reward", numeric: true, by: (row) => row.first_reward, cell: (row) => fixed(row.first_reward) },
    { key: "last", title: "Last reward", numeric: true, by: (row) => row.last_reward, cell: (row) => fixed(row.last_reward) },
    { key: "change", title: "Change", numeric: true, by: (row) => row.change, hint: "Last minus first mean reward", cell: (row) => html`<strong class=${row.change === null || row.change === 0 ? "" : row.change > 0 ? "good" : "bad"}>${signed(row.change)}</strong>` },
    { key: "success", title: "Success", numeric: true, by: (row) => row.success_rate, cell: (row) => percent(row.success_rate, 0) },
  ];
}
