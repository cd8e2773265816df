// @ts-check
/** What holds a run back: one card for each finding, the most likely cause first. */
import { html } from "../html.js";
import { plural, safe } from "../format.js";
import { CopyButton } from "../parts/copy.js";
import { Curve } from "../parts/curve.js";
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
  const curves = Object.entries(finding.curves);
  return html`<section class="card" aria-labelledby=${`why-${finding.id}`}>
    <div class="card-head"><h2 id=${`why-${finding.id}`}>${begin(finding.symptom)}</h2></div>
    <div class="card-body stack">
      <p>${begin(finding.message)}.</p>
      ${curves.length > 0 && html`<div class="why-curves">${curves.map(([name, points]) => html`<figure key=${name}><figcaption class="muted">${safe(name)}</figcaption><${Curve} points=${points} width=${200} height=${48} label=${name} /></figure>`)}</div>`}
      <dl class="facts">
        <dt>Change</dt><dd><span class="row"><code>${safe(finding.change)}</code><${CopyButton} text=${finding.change} css="quiet" /></span><p class="muted">${finding.advice.split("`").map((part, at) => (at % 2 ? html`<code key=${at}>${safe(part)}</code>` : safe(part)))}</p></dd>
        ${finding.episodes.length > 0 && html`<dt>Look at</dt><dd>${finding.episodes.map((episode) => html`<a class="why-episode" key=${episode} href=${to.episode(run, episode)}>${safe(episode)}</a>`)}</dd>`}
        <dt>More</dt><dd><code>${safe(finding.page)}</code></dd>
      </dl>
    </div>
  </section>`;
}

/** A text as a sentence begins. @param {string} text */
function begin(text) {
  return safe(text.charAt(0).toUpperCase() + text.slice(1));
}
