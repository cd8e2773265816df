// @ts-check
/** All runs: how each does, searched, sorted, chosen for a comparison. */
import { html, useEffect, useState } from "../html.js";
import { bytes, count, duration, fixed, plural, safe, short } from "../format.js";
import { useKeys } from "../keys.js";
import { useLive } from "../live.js";
import { StatusBadge } from "../parts/badge.js";
import { Curve } from "../parts/curve.js";
import { FilterBox } from "../parts/filter.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { firstOrder, sortRows, Table } from "../parts/table.js";
import { Ago } from "../parts/time.js";
import { navigate, query, setQuery, to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").RunRow} RunRow */
/** @typedef {import("../types.js").Runs} Runs */

export default function RunsPage() {
  const answer = /** @type {ReturnType<typeof useAnswer<Runs>>} */ (useAnswer(api(["runs"])));
  return html`<div class="page">
    <h1 class="sr-only">Runs</h1>
    <${Answer} answer=${answer} what="Looking for runs">${(/** @type {Runs} */ data) => html`<${RunList} data=${data} />`}<//>
  </div>`;
}

/** @param {{data: Runs}} props */
function RunList({ data }) {
  const [changed, setChanged] = useState(/** @type {Record<string, RunRow>} */ ({}));
  const [chosen, setChosen] = useState(/** @type {string[]} */ ([]));
  const [at, setAt] = useState(-1);
  useLive({ run: (row) => setChanged((old) => ({ ...old, [row.id]: row })) }, []);
  useEffect(() => setChanged({}), [data]);
  const all = merge(data.runs, changed);
  const words = query("q").toLowerCase().split(/\s+/).filter(Boolean);
  const sort = query("sort");
  /** @param {string|undefined} id */
  const toggle = (id) => id && setChosen((old) => (old.includes(id) ? old.filter((item) => item !== id) : [...old, id]));
  const cells = columns(chosen, toggle);
  const column = cells.find((item) => item.key === sort);
  const by = column?.by;
  const order = query("order") === "asc" || query("order") === "desc" ? /** @type {"asc"|"desc"} */ (query("order")) : column ? firstOrder(column) : "desc";
  const found = all.filter((run) => words.every((word) => [run.name, run.path, run.status, run.backbone, run.model].some((text) => text?.toLowerCase().includes(word))));
  const runs = by ? sortRows(found, by, order) : found;
  useKeys("Runs", [
    { keys: "j", text: "Next run", act: () => setAt((old) => Math.min(old + 1, runs.length - 1)) },
    { keys: "k", text: "Previous run", act: () => setAt((old) => Math.max(old - 1, 0)) },
    { keys: "x", text: "Select the run for a comparison", act: () => toggle(runs[at]?.id) },
    { keys: "Enter", text: "Open the run", act: () => runs[at] && navigate(to.run(runs[at].id)) },
    { keys: "c", text: "Compare the selected runs", act: () => chosen.length > 1 && navigate(to.compare(chosen)) },
  ], [runs.map((run) => run.id).join(), at, chosen]);
  if (!all.length) return html`<${Welcome} data=${data} />`;
  return html`
    <div class="row">
      <${FilterBox} label="Search runs" placeholder="Search by name, folder, status, backbone or model" complete=${false} value=${query("q")} onChange=${(/** @type {string} */ q) => setQuery({ q })} />
      <span class="muted small" role="status">${runs.length === all.length ? plural(all.length, "run") : `${count(runs.length)} of ${plural(all.length, "run")}`}</span>
      ${chosen.length > 0 && html`<button type="button" class="quiet" onClick=${() => setChosen([])}>Clear selection</button>`}
      <button type="button" class=${chosen.length > 1 ? "primary" : ""} disabled=${chosen.length < 2} title="Select two runs or more" onClick=${() => navigate(to.compare(chosen))}>
        Compare${chosen.length ? ` ${chosen.length}` : ""}</button>
    </div>
    ${runs.length
      ? html`<${Table} caption="Runs" css="runs-table" columns=${cells} rows=${runs} sorted rowKey=${(/** @type {RunRow} */ run) => run.id} sort=${sort || undefined} order=${order}
          onSort=${(/** @type {string} */ key, /** @type {string} */ way) => setQuery({ sort: key, order: way })}
          rowClass=${(/** @type {RunRow} */ run) => (run.id === runs[at]?.id ? "current" : changed[run.id] ? "fresh" : undefined)} />`
      : html`<${Empty} title="No run matches">Nothing has “${query("q")}” in its name, folder, status, backbone or model.<//>`}
    <${Problems} problems=${data.problems} />
    <p class="faint small">Reading ${data.roots.map((root, index) => html`${index ? ", " : ""}<code>${safe(root)}</code>`)}</p>`;
}

/** @param {RunRow[]} rows @param {Record<string, RunRow>} changed */
function merge(rows, changed) {
  const known = new Set(rows.map((row) => row.id));
  const added = Object.values(changed).filter((row) => !known.has(row.id));
  return [...added, ...rows.map((row) => ({ ...row, ...changed[row.id] }))];
}

/** @param {string[]} chosen @param {(id: string) => void} toggle @returns {import("../parts/table.js").Column<RunRow>[]} */
function columns(chosen, toggle) {
  return [
    { key: "pick", title: "Select", hideTitle: true, css: "pick", cell: (run) => html`<input type="checkbox" aria-label=${`Select ${safe(run.name)}`} checked=${chosen.includes(run.id)} onChange=${() => toggle(run.id)} />` },
    { key: "name", title: "Name", lead: true, by: (run) => run.name, cell: (run) => html`<div class="run-name">
      <span><a href=${to.run(run.id)}>${safe(run.name)}</a>${run.replay_of && html` <span class="badge" title=${`Judged again from ${safe(run.replay_of)}`}>replay</span>`}</span>
      <span class="where truncate" title=${safe(run.path)}>${safe(run.model ?? run.path)}</span></div>` },
    { key: "status", title: "Status", by: (run) => run.status, cell: (run) => html`<${StatusBadge} status=${run.status} detail=${run.detail} />` },
    { key: "backbone", title: "Backbone", by: (run) => run.backbone, cell: (run) => safe(run.backbone ?? "–") },
    { key: "reward", title: "Reward", numeric: true, by: (run) => run.last_reward, hint: "Mean reward of the first and the last training step", css: "curve-cell", cell: (run) => html`<span class="curve-pair">
      ${run.curve && html`<${Curve} points=${run.curve} />`}<span class="pair"><span class="muted">${fixed(run.first_reward)}</span><span class="faint" aria-hidden="true">→</span><span class="sr-only">to</span><strong>${fixed(run.last_reward)}</strong></span></span>` },
    { key: "best", title: "Best validation", numeric: true, by: (run) => run.best_validation, cell: (run) => html`<span>${fixed(run.best_validation)}${run.best_step !== null && html`<span class="faint small"> @${run.best_step}</span>`}</span>` },
    { key: "steps", title: "Steps", numeric: true, by: (run) => run.steps, cell: (run) => html`<${Progress} done=${run.steps} planned=${run.planned_steps} />` },
    { key: "episodes", title: "Episodes", numeric: true, by: (run) => run.episodes, cell: (run) => html`<span title=${run.indexed !== null && run.indexed < 1 ? `${Math.round(run.indexed * 100)} % of ${bytes(run.bytes)} indexed` : bytes(run.bytes)}>
      ${run.episodes === null ? html`<span class="faint">${run.indexed !== null && run.indexed < 1 ? `indexing ${Math.round(run.indexed * 100)} %` : "–"}</span>` : short(run.episodes)}${run.failed ? html`<span class="bad small"> ${short(run.failed)} failed</span>` : ""}</span>` },
    { key: "time", title: "Time", numeric: true, by: (run) => run.time_s, cell: (run) => html`<span class="nowrap">${duration(run.time_s)}</span>` },
    { key: "updated", title: "Updated", numeric: true, by: (run) => run.updated, cell: (run) => html`<${Ago} at=${run.updated} class="nowrap muted" />` },
  ];
}

/** @param {{done: number|null, planned: number|null}} props */
function Progress({ done, planned }) {
  const share = done !== null && planned ? Math.min(done / planned, 1) : null;
  return html`<span class="progress-cell"><span>${count(done)}${planned !== null && html`<span class="faint"> / ${count(planned)}</span>`}</span>
    ${share !== null && share < 1 && html`<progress max="1" value=${share} aria-label="Steps done"></progress>`}</span>`;
}

/** What a reader sees who has no run yet. @param {{data: Runs}} props */
function Welcome({ data }) {
  return html`<${Empty} title="No runs here yet">No run directory was found in ${data.roots.map((root, index) => html`${index ? ", " : ""}<code>${safe(root)}</code>`)}.
    A run appears here when it starts: <code>astuner run --conf tune.yaml</code>. To look elsewhere: <code>astuner logview DIR</code>.<//>
    <${Problems} problems=${data.problems} />`;
}
