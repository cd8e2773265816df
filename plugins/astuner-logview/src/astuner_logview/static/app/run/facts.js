// @ts-check
/** What a run was made of: versions, command, attempts, checkpoints. */
import { html } from "../html.js";
import { bytes, count, fixed, moment, plain, plural, safe } from "../format.js";
import { CopyButton } from "../parts/copy.js";
import { to } from "../route.js";

/** @typedef {import("../types.js").Run} Run */

/** @param {{run: Run}} props */
export function Checkpoints({ run }) {
  return html`<section class="card" aria-labelledby="checkpoints-title">
    <div class="card-head"><h2 id="checkpoints-title">Checkpoints</h2></div>
    ${run.checkpoints.length === 0 ? html`<div class="card-body muted">No checkpoint has been saved.</div>` : html`<div class="table-wrap"><table class="grid">
      <caption class="sr-only">Checkpoints</caption>
      <thead><tr><th scope="col">Step</th><th scope="col" class="number">Validation</th><th scope="col"><span class="sr-only">Kind</span></th></tr></thead>
      <tbody>${run.checkpoints.toReversed().map((item) => html`<tr key=${item.step}>
        <td><a href=${to.episodes(run.id, { filter: `step:${item.step}` })}>${item.step}</a></td>
        <td class="number">${fixed(run.validations.find((row) => row.step === item.step)?.reward)}</td>
        <td class="number">${item.best && html`<span class="badge good">best</span>`} ${item.last && html`<span class="badge">last</span>`}</td></tr>`)}</tbody>
    </table></div>`}
  </section>`;
}

/** @param {{run: Run}} props */
export function Facts({ run }) {
  const command = Array.isArray(run.command) ? run.command.join(" ") : run.command;
  const splits = Object.entries(run.splits).map(([name, split]) => `${name}: ${plural(split.episodes, "episode")} in ${plural(split.steps.length, "step")}`).join("; ");
  /** @type {[string, any][]} */
  const facts = [
    ["Folder", html`<code>${safe(run.path)}</code>`],
    ["Command", command && html`<span class="row"><code>${safe(command)}</code><${CopyButton} text=${command} css="quiet" /></span>`],
    ["Started", moment(run.started)],
    ["Seed", run.seed === null ? null : String(run.seed)],
    ["Source", run.git ? describeTree(run.git) : null],
    ["Stored", [splits, bytes(run.bytes)].filter(Boolean).join("; ")],
    ["Tokens of the trainer", run.tokens_recorded ? `${plural(run.tokens_recorded.steps, "step")}, ${bytes(run.tokens_recorded.bytes)}` : "not recorded"],
    ["Tokenizer", run.tokenizer ? "in the run directory" : "not in the run directory: tokens are shown as ids"],
    ["Agents", run.agents.map(safe).join(", ")],
    ["Judged by", run.components.map(safe).join(", ")],
    ["Plugins", run.plugins.map(safe).join(", ")],
    ["Versions", Object.entries(run.versions).map(([name, version]) => html`<span class="nowrap">${safe(name)} <span class="muted">${safe(version)}</span></span>${"  "}`)],
  ];
  return html`<section class="card grow" aria-labelledby="facts-title">
    <div class="card-head"><h2 id="facts-title">About this run</h2></div>
    <div class="card-body stack">
      <dl class="facts">${facts.filter(([, value]) => value && value.length !== 0).map(([name, value]) => html`<dt key=${name}>${name}</dt><dd>${value}</dd>`)}</dl>
      ${run.attempts.length > 1 && html`<details><summary class="muted">${count(run.attempts.length)} attempts</summary>
        <ol class="stack small attempts">${run.attempts.map((attempt, at) => html`<li key=${at}>${describeTree(attempt)}</li>`)}</ol></details>`}
    </div>
  </section>`;
}

/** @param {unknown} tree */
function describeTree(tree) {
  if (tree === null || typeof tree !== "object") return safe(plain(tree));
  return Object.entries(tree).filter(([, value]) => value !== null && value !== "").map(([key, value]) => `${key}: ${/^\d{4}-\d\d-\d\dT/.test(String(value)) ? moment(String(value)) : safe(plain(value))}`).join(" · ");
}
