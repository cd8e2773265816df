// @ts-check
/** The tasks that compared runs share: where another run is better or worse than the first. */
import { html, useMemo, useState } from "../html.js";
import { count, fixed, plural, safe, signed } from "../format.js";
import { Empty } from "../parts/notices.js";
import { sortRows, Table } from "../parts/table.js";
import { to } from "../route.js";

/** @typedef {import("../types.js").Comparison} Comparison */
/** @typedef {{task: string, scores: (number|null)[]}} TaskScores */

const FIRST = 30;
const SAME = 1e-9;

/** @param {{data: Comparison}} props */
export function CompareTasks({ data }) {
  const [other, setOther] = useState(1);
  const [all, setAll] = useState(false);
  const [sort, setSort] = useState(/** @type {{key: string, order: "asc"|"desc"}} */ ({ key: "change", order: "asc" }));
  const change = (/** @type {TaskScores} */ row) => {
    const [first, second] = [row.scores[0] ?? null, row.scores[other] ?? null];
    return first === null || second === null ? null : second - first;
  };
  const totals = useMemo(() => {
    const changes = data.tasks.map(change);
    return { better: changes.filter((value) => value !== null && value > SAME).length, worse: changes.filter((value) => value !== null && value < -SAME).length, same: changes.filter((value) => value !== null && Math.abs(value) <= SAME).length, alone: changes.filter((value) => value === null).length };
  }, [data, other]);
  if (!data.tasks.length) return html`<section class="section"><h2>Tasks in pairs</h2>${data.same_tasks
    ? html`<${Empty} title="No task differs">${plural(data.same_tasks, "task")} ended with the same score in all runs.<//>`
    : html`<${Empty} title="No task in common">The runs have no stored episodes of the same task.<//>`}</section>`;
  const columns = /** @type {import("../parts/table.js").Column<TaskScores>[]} */ ([
    { key: "task", title: "Task", lead: true, by: (row) => row.task, cell: (row) => html`<span class="mono">${safe(row.task)}</span>` },
    ...data.runs.map((run, at) => ({
      key: `run ${at}`, title: safe(run.name), numeric: true, by: (/** @type {TaskScores} */ row) => row.scores[at] ?? null,
      cell: (/** @type {TaskScores} */ row) => (row.scores[at] === null || row.scores[at] === undefined ? html`<span class="faint">not played</span>` : html`<a href=${to.task(run.id, row.task)}>${fixed(row.scores[at])}</a>`),
    })),
    { key: "change", title: "Change", numeric: true, by: change, cell: (row) => {
      const value = change(row);
      return html`<strong class=${value === null ? "faint" : value > SAME ? "good" : value < -SAME ? "bad" : "muted"}>${signed(value)}</strong>`;
    } },
  ]);
  const rows = sortRows(data.tasks, columns.find((column) => column.key === sort.key)?.by ?? change, sort.order);
  return html`<section class="section" aria-labelledby="tasks-title">
    <div class="section-head"><h2 id="tasks-title">Tasks in pairs</h2>
      <span class="muted small">Mean ${data.measure} of a task, ${safe(data.split)}${data.same_tasks ? `; ${plural(data.same_tasks, "task")} with the same score in all runs left out` : ""}</span></div>
    ${data.runs.length > 2 && html`<div class="row small"><label class="switch">Compare ${safe(data.runs[0]?.name)} with
      <select value=${String(other)} onChange=${(/** @type {Event} */ event) => setOther(Number(/** @type {HTMLSelectElement} */ (event.currentTarget).value))}>
        ${data.runs.slice(1).map((run, at) => html`<option key=${run.id} value=${String(at + 1)}>${safe(run.name)}</option>`)}</select></label></div>`}
    <div class="balance" role="img" aria-label=${`${plural(totals.worse, "task")} worse, ${totals.same} equal, ${totals.better} better`}>
      ${totals.worse > 0 && html`<span class="worse" style=${{ flexGrow: totals.worse }}>${count(totals.worse)} worse</span>`}
      ${totals.same > 0 && html`<span class="same" style=${{ flexGrow: totals.same }}>${count(totals.same)} equal</span>`}
      ${totals.better > 0 && html`<span class="better" style=${{ flexGrow: totals.better }}>${count(totals.better)} better</span>`}
    </div>
    ${totals.alone > 0 && html`<p class="muted small">${plural(totals.alone, "task")} played by only one of the two.</p>`}
    <${Table} caption="Tasks in pairs" columns=${columns} rows=${all ? rows : rows.slice(0, FIRST)} rowKey=${(/** @type {TaskScores} */ row) => row.task} sorted
      sort=${sort.key} order=${sort.order} onSort=${(/** @type {string} */ key, /** @type {"asc"|"desc"} */ order) => setSort({ key, order })} />
    ${rows.length > FIRST && html`<div><button type="button" class="quiet" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Show fewer" : `Show all ${count(rows.length)} tasks`}</button></div>`}
  </section>`;
}
