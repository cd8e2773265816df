// @ts-check
/** What holds a run back: one card for each finding, the most likely cause first. */
import { html } from "../html.js";
import { plural, safe } from "../format.js";
import { CopyButton } from "../parts/copy.js";
import { useIndexGrowth } from "../parts/indexing.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Why} Why */
/** @typedef {import("../types.js").WhyFinding} WhyFinding */

/** @param {{run: string, parts: string[]}} props */
export default function WhyPage({ run }) {
  const answer = /** @type {ReturnType<typeof useAnswer<Why>>} */ (useAnswer(api(["runs", run, "why"])));
  useIndexGrowth(() => answer.reload(), [run]);
  return html`<div class="page why-page">
    <header class="page-head"><div><h1>Why</h1><p class="about">What holds this run back, the most likely cause first</p></div></header>
    <${Answer} answer=${answer} what="Looking for symptoms">${(/** @type {Why} */ why) => html`
      <${Problems} problems=${why.problems} />
      ${why.findings.length === 0
        ? html`<${Empty} title="Nothing stands out">${plural(why.rules, "rule")} looked at ${plural(why.steps, "step")}.<//>`
        : html`<ol class="findings">${why.findings.map((finding) => html`<li key=${finding.id}><${FindingCard} run=${run} finding=${finding} /></li>`)}</ol>`}`}<//>
  </div>`;
}

/** @param {{run: string, finding: WhyFinding}} props */
function FindingCard({ run, finding }) {
  return html`<section class="card" aria-labelledby=${`why-${finding.id}`}>
    <div class="card-head"><h2 id=${`why-${finding.id}`}>${safe(finding.symptom)}</h2></div>
    <div class="card-body stack">
      <p>${safe(finding.message)}</p>
      <dl class="facts">
        <dt>Change</dt><dd><span class="row"><code>${safe(finding.change)}</code><${CopyButton} text=${finding.change} css="quiet" /></span><p class="muted">${safe(finding.advice)}</p></dd>
        ${finding.episodes.length > 0 && html`<dt>Look at</dt><dd>${finding.episodes.map((episode) => html`<a class="why-episode" key=${episode} href=${to.episode(run, episode)}>${safe(episode)}</a>`)}</dd>`}
        <dt>More</dt><dd><code>${safe(finding.page)}</code></dd>
      </dl>
    </div>
  </section>`;
}
