// @ts-check
/** One run: how it goes, where its tokens went, its steps, and what it was made of. */
import { html, useEffect, useState } from "../html.js";
import { safe } from "../format.js";
import { useKeys } from "../keys.js";
import { currentRun, useLive } from "../live.js";
import { useIndexGrowth, useReloadOnceIndexed } from "../parts/indexing.js";
import { Answer, Problems } from "../parts/notices.js";
import { navigate, query, setQuery, to } from "../route.js";
import { Charts, RewardCard } from "../run/charts.js";
import { RunConfiguration } from "../run/configuration.js";
import { Checkpoints, Facts } from "../run/facts.js";
import { RunHeader, Tiles } from "../run/header.js";
import { StepTable } from "../run/steps.js";
import { Waterfall } from "../run/waterfall.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Run} Run */
/** @typedef {import("../types.js").RunRow} RunRow */
/** @typedef {import("../types.js").Metrics} Metrics */
/** @typedef {import("../types.js").StepEvent} StepEvent */

/** @param {{run: string}} props */
export default function RunPage({ run }) {
  const answer = /** @type {ReturnType<typeof useAnswer<Run>>} */ (useAnswer(api(["runs", run])));
  useReloadOnceIndexed(answer.data, answer.reload);
  return html`${!answer.data && html`<h1 class="sr-only">${safe(run)}</h1>`}<${Answer} answer=${answer} what="Reading the run">${(/** @type {Run} */ data) => html`<${RunContent} run=${data} />`}<//>`;
}

/** @param {{run: Run}} props */
function RunContent({ run }) {
  // Events carry a row; the facts come from the answer.
  const row = currentRun.value;
  const now = row?.id === run.id ? { ...run, ...row } : run;
  return html`<div class="page">
    <${RunHeader} run=${now} />
    <${Problems} problems=${run.problems} />
    ${query("tab") === "configuration" ? html`<${RunConfiguration} run=${run} />` : html`<${Overview} run=${now} />`}
  </div>`;
}

/** @param {{run: Run}} props */
function Overview({ run }) {
  const metrics = /** @type {ReturnType<typeof useAnswer<Metrics>>} */ (useAnswer(api(["runs", run.id, "metrics"])));
  const [added, setAdded] = useState(/** @type {StepEvent[]} */ ([]));
  const [tick, setTick] = useState(0);
  useEffect(() => setAdded([]), [metrics.data]);
  useLive({ step: (event) => setAdded((old) => [...old, event]) }, [run.id]);
  useIndexGrowth(() => setTick((old) => old + 1), [run.id]);
  const last = run.steps ?? 0;
  const steps = [...new Set([...(run.splits[query("split", "train")]?.steps ?? []), ...added.filter((event) => event.split === query("split", "train")).map((event) => event.step)])].sort((a, b) => a - b);
  const turnStep = (/** @type {number} */ by) => {
    const now = query("of");
    const next = now ? steps[steps.indexOf(Number(now)) + by] : steps.at(by > 0 ? 0 : -1);
    if (next !== undefined) setQuery({ of: next });
  };
  useKeys("Run", [
    { keys: "]", text: "Tokens of the next step", act: () => turnStep(1) },
    { keys: "[", text: "Tokens of the previous step", act: () => turnStep(-1) },
    { keys: "w", text: "Open the worst group of the last step", act: () => navigate(to.worst(run.id, last)) },
    { keys: "e", text: "List episodes", act: () => navigate(to.episodes(run.id)) },
  ], [run.id, last, steps.length, query("of")]);
  return html`
    <${Tiles} run=${run} />
    <div class="halves">
      <${RewardCard} run=${run.id} metrics=${metrics.data ? grow(metrics.data, added) : null} />
      <${Waterfall} run=${run.id} steps=${steps} splits=${Object.keys(run.splits)} tick=${tick} />
    </div>
    <${Answer} answer=${metrics} what="Reading curves">${(/** @type {Metrics} */ data) => html`
      <${Charts} run=${run.id} metrics=${grow(data, added)} /><${Problems} problems=${data.problems} />`}<//>
    <${StepTable} run=${run.id} tick=${tick} />
    <div class="two-one"><${Facts} run=${run} /><${Checkpoints} run=${run} /></div>`;
}

/** Return the metrics with rows that events brought since; a row that is known already is replaced. @param {Metrics} metrics @param {StepEvent[]} added @returns {Metrics} */
function grow(metrics, added) {
  if (!added.length) return metrics;
  /** @type {(rows: import("../types.js").MetricRow[], validation: boolean) => import("../types.js").MetricRow[]} */
  const merge = (rows, validation) => {
    const found = new Map(rows.map((item) => [item.step, item]));
    for (const event of added) if ((event.split === "validation") === validation) found.set(event.step, { ...event.metrics, step: event.step });
    return [...found.values()].sort((a, b) => a.step - b.step);
  };
  return { ...metrics, train: merge(metrics.train, false), validation: merge(metrics.validation, true) };
}
