// @ts-check
/** The judge of a run: its rewards by component, where it failed, and how far another judge agrees. */
import { html } from "../html.js";
import { count, safe } from "../format.js";
import { Agreement } from "../judge/agreement.js";
import { DistributionCard } from "../judge/distributions.js";
import { IndexedShare, isIndexing, useIndexGrowth } from "../parts/indexing.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { navigate, query, setQuery, to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Judge} Judge */
/** @typedef {import("../types.js").Run} Run */

/** @param {{run: string, parts: string[]}} props */
export default function JudgePage({ run }) {
  const facts = /** @type {ReturnType<typeof useAnswer<Run>>} */ (useAnswer(api(["runs", run])));
  const splits = Object.keys(facts.data?.splits ?? {});
  const split = query("split", splits.includes("train") || !splits.length ? "train" : splits[0]);
  const step = query("step");
  const answer = /** @type {ReturnType<typeof useAnswer<Judge>>} */ (useAnswer(api(["runs", run, "judge"], { split, step })));
  useIndexGrowth(() => {
    facts.reload();
    answer.reload();
  }, [run, split, step]);
  return html`<div class="page judge-page">
    <header class="page-head">
      <div><h1>Judge</h1>${answer.data && answer.data.judges.length > 0 && html`<p class="about">${answer.data.judges.map(safe).join(", ")}</p>`}</div>
      <div class="row">
        <${IndexedShare} run=${run} />
        ${splits.length > 1 && html`<div class="segmented" role="group" aria-label="Split">${splits.map((name) => html`<button key=${name} type="button" aria-pressed=${name === split} onClick=${() => setQuery({ split: name, step: null })}>${safe(name)}</button>`)}</div>`}
        <label class="row"><span class="muted">Step</span><select onChange=${(/** @type {Event} */ event) => setQuery({ step: /** @type {HTMLSelectElement} */ (event.target).value })}>
          <option value="" selected=${step === ""}>all</option>
          ${(facts.data?.splits[split]?.steps ?? []).map((one) => html`<option key=${one} value=${String(one)} selected=${step === String(one)}>${one}</option>`)}
        </select></label>
      </div>
    </header>
    <${Answer} answer=${answer} what="Loading verdicts">${(/** @type {Judge} */ judge) => html`<${JudgeView} run=${run} split=${split} judge=${judge} />`}<//>
  </div>`;
}

/** @param {{run: string, split: string, judge: Judge}} props */
function JudgeView({ run, split, judge }) {
  const replay = query("replay", judge.replays[0]?.name ?? "");
  const openStep = (/** @type {number} */ step) => navigate(to.episodes(run, { filter: `split:${split} step:${step}`, sort: "reward", order: "asc" }));
  return html`
    <${Problems} problems=${judge.problems} />
    ${judge.rewards.count === 0
      ? html`<${Empty} title=${isIndexing(run) ? "No reward is indexed yet" : "No episode has a reward"} />`
      : html`<h2 class="sr-only">Rewards</h2><div class="distributions">
        <${DistributionCard} title="Reward" series=${1} distribution=${judge.rewards} onStep=${openStep} />
        ${judge.components.map((component, at) => html`<${DistributionCard} key=${component.name} series=${(at % 7) + 2} distribution=${component} onStep=${openStep} />`)}
      </div>`}
    ${judge.failures.length > 0 && html`<section class="section"><h2>Failures</h2>
      <div class="table-wrap"><table class="grid"><caption class="sr-only">Why verdicts are missing</caption>
        <thead><tr><th scope="col">Reason</th><th scope="col" class="number">Episodes</th><th scope="col">Example</th></tr></thead>
        <tbody>${judge.failures.map((failure) => html`<tr key=${failure.reason}><td><a href=${to.episodes(run, { filter: failure.filter })}>${safe(failure.reason)}</a></td><td class="number">${count(failure.count)}</td><td class="failure-detail">${safe(failure.detail)}</td></tr>`)}</tbody>
      </table></div></section>`}
    <section class="section">
      <div class="section-head"><h2>Agreement with another judge</h2>
        ${judge.replays.length > 0 && html`<label class="row small"><span class="muted">Replay</span><select onChange=${(/** @type {Event} */ event) => setQuery({ replay: /** @type {HTMLSelectElement} */ (event.target).value })}>
          ${judge.replays.map((one) => html`<option key=${one.id} value=${one.name} selected=${one.name === replay}>${safe(one.name)}</option>`)}</select></label>`}
      </div>
      ${judge.replays.length === 0
        ? html`<p class="muted">There is no replay of this run. <code>astuner replay</code> judges its stored episodes again; what both judges said is compared here.</p>`
        : html`<${Agreement} run=${run} replay=${replay} />`}
    </section>`;
}
