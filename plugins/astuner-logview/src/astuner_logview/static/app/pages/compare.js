// @ts-check
/** Runs next to each other: what is set differently, their curves over each other, and their tasks in pairs. */
import { html, useMemo, useState } from "../html.js";
import { CompareTasks } from "../compare/tasks.js";
import { duration, fixed, plain, safe, short } from "../format.js";
import { StatusBadge } from "../parts/badge.js";
import { Chart, smooth } from "../parts/chart.js";
import { FilterBox } from "../parts/filter.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";
import { query, route, setQuery, to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Comparison} Comparison */
/** @typedef {import("../types.js").RunRow} RunRow */

const FIRST_CHARTS = 6;

export default function ComparePage() {
  const runs = route.value.query.getAll("run");
  const answer = /** @type {ReturnType<typeof useAnswer<Comparison>>} */ (useAnswer(runs.length > 1 ? api(["compare"], { run: runs }) : null));
  if (runs.length < 2) {
    return html`<div class="page"><h1>Compare</h1><${Empty} title="Choose two runs or more"><a href=${to.runs()}>Select them in the list of runs</a><//></div>`;
  }
  return html`<div class="page">
    <div class="page-head"><h1>Compare ${runs.length} runs</h1></div>
    <${Answer} answer=${answer} what="Comparing">${(/** @type {Comparison} */ data) => html`
      <${Problems} problems=${data.problems} />
      <${Summary} runs=${data.runs} />
      <${Configuration} data=${data} />
      <${Curves} data=${data} />
      <${CompareTasks} data=${data} />`}<//>
  </div>`;
}

/** @param {{runs: RunRow[]}} props */
function Summary({ runs }) {
  const drop = (/** @type {string} */ id) => setQuery({ run: runs.map((run) => run.id).filter((item) => item !== id) }, { replace: false });
  const columns = /** @type {import("../parts/table.js").Column<RunRow>[]} */ ([
    { key: "name", title: "Run", lead: true, cell: (run) => html`<span class="row"><span class=${`swatch s${runs.indexOf(run) % 8 + 1}`} aria-hidden="true"></span><a class="strong" href=${to.run(run.id)}>${safe(run.name)}</a></span>` },
    { key: "status", title: "Status", cell: (run) => html`<${StatusBadge} status=${run.status} detail=${run.detail} />` },
    { key: "backbone", title: "Backbone", cell: (run) => safe(run.backbone ?? "–") },
    { key: "model", title: "Model", cell: (run) => html`<span class="muted">${safe(run.model ?? "–")}</span>` },
    { key: "reward", title: "Reward", numeric: true, cell: (run) => html`<span class="pair"><span class="muted">${fixed(run.first_reward)}</span><span class="faint">→</span><strong>${fixed(run.last_reward)}</strong></span>` },
    { key: "best", title: "Best validation", numeric: true, cell: (run) => fixed(run.best_validation) },
    { key: "steps", title: "Steps", numeric: true, cell: (run) => run.steps },
    { key: "tokens", title: "Tokens", numeric: true, cell: (run) => short(run.tokens) },
    { key: "time", title: "Time", numeric: true, cell: (run) => duration(run.time_s) },
    { key: "updated", title: "Updated", numeric: true, cell: (run) => html`<${Ago} at=${run.updated} class="nowrap muted" />` },
    { key: "drop", title: "Leave out", hideTitle: true, cell: (run) => runs.length > 2 && html`<button type="button" class="quiet icon" aria-label=${`Leave out ${safe(run.name)}`} title="Leave out" onClick=${() => drop(run.id)}>×</button>` },
  ]);
  return html`<${Table} caption="Compared runs" columns=${columns} rows=${runs} rowKey=${(/** @type {RunRow} */ run) => run.id} />`;
}

/** @param {{data: Comparison}} props */
function Configuration({ data }) {
  const [search, setSearch] = useState("");
  const rows = data.configuration.filter((row) => row.key.toLowerCase().includes(search.toLowerCase()));
  return html`<section class="section" aria-labelledby="differences-title">
    <div class="section-head"><h2 id="differences-title">What is set differently</h2>${data.configuration.length > 10 && html`<div class="side-search"><${FilterBox} label="Search keys" complete=${false} value=${search} onChange=${setSearch} placeholder="Search keys" /></div>`}</div>
    ${data.configuration.length === 0 ? html`<${Empty} title="Nothing">Their resolved configurations are the same.<//>` : html`<div class="table-wrap" role="region" aria-label="Keys with different values" tabindex="0"><table class="grid keys">
      <caption class="sr-only">Keys with different values</caption>
      <thead><tr><th scope="col">Key</th>${data.runs.map((run, at) => html`<th scope="col" key=${run.id}><span class="row"><span class=${`swatch s${at % 8 + 1}`} aria-hidden="true"></span>${safe(run.name)}</span></th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr key=${row.key}><th scope="row" class="mono">${safe(row.key)}</th>
        ${row.values.map((value, at) => html`<td key=${at} class=${`mono ${at > 0 && plain(value) !== plain(row.values[0]) ? "differs" : ""}`}>${value === null || value === undefined ? html`<span class="faint">not set</span>` : safe(plain(value))}</td>`)}</tr>`)}</tbody>
    </table></div>`}
  </section>`;
}

/** @param {{data: Comparison}} props */
function Curves({ data }) {
  const [all, setAll] = useState(false);
  const weight = Number(query("smooth", "0.6")) || 0;
  const names = Object.keys(data.curves).filter((name) => data.curves[name]?.some((points) => points.length));
  const shown = all ? names : names.slice(0, FIRST_CHARTS);
  if (!names.length) return null;
  return html`<section class="section" aria-labelledby="curves-title">
    <div class="section-head"><h2 id="curves-title">Curves</h2>
      <ul class="legend">${data.runs.map((run, at) => html`<li key=${run.id}><span class=${`swatch s${at % 8 + 1}`}></span>${safe(run.name)}</li>`)}</ul></div>
    <div class="card"><div class="card-body chart-grid">${shown.map((name) => html`<${Overlay} key=${name} name=${name} data=${data} weight=${weight} />`)}</div></div>
    ${names.length > FIRST_CHARTS && html`<div><button type="button" class="quiet" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? "Show fewer" : `Show all ${names.length} curves`}</button></div>`}
  </section>`;
}

/** @param {{name: string, data: Comparison, weight: number}} props */
function Overlay({ name, data, weight }) {
  const lines = useMemo(() => (data.curves[name] ?? []).flatMap((points, at) => {
    const label = safe(data.runs[at]?.name);
    const series = at % 8 + 1;
    if (!weight || points.length < 4) return [{ label, points, series }];
    return [{ label: `${label}, as it is`, points, series, faint: true }, { label, points: smooth(points, weight), series }];
  }), [name, data, weight]);
  return html`<${Chart} title=${name} lines=${lines} sync="compare" />`;
}
