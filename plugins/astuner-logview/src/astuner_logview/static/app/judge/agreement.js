// @ts-check
/** What another judge, in a replay, said of the same episodes: numbers, flips and groups whose order turned. */
import { html, useMemo } from "../html.js";
import { count, number, percent, plural, safe } from "../format.js";
import { Answer, Empty, Problems } from "../parts/notices.js";
import { Reward } from "../parts/badge.js";
import { to } from "../route.js";
import { api, useAnswer } from "../source.js";

/** @typedef {import("../types.js").Agreement} AgreementAnswer */

/** @type {Record<string, string>} */
const KINDS = { to_failure: "now a failure", to_success: "now a success", gained: "now has a reward", lost: "has no reward any more" };
const MOST = 200;

/** @param {{run: string, replay: string}} props */
export function Agreement({ run, replay }) {
  const answer = /** @type {ReturnType<typeof useAnswer<AgreementAnswer>>} */ (useAnswer(api(["runs", run, "agreement"], { replay })));
  return html`<${Answer} answer=${answer} what="Comparing the verdicts">${(/** @type {AgreementAnswer} */ data) => html`<${Comparison} run=${run} data=${data} />`}<//>`;
}

/** @param {{run: string, data: AgreementAnswer}} props */
function Comparison({ run, data }) {
  const kinds = useMemo(() => Object.keys(KINDS).map((kind) => ({ kind, flips: data.flips.filter((flip) => flip.kind === kind) })).filter((one) => one.flips.length), [data]);
  return html`
    <${Problems} problems=${data.problems} />
    <dl class="tiles">
      <div class="tile"><dt>Agreement</dt><dd>${percent(data.agreement)}</dd></div>
      ${data.numbers.map((one) => html`<div key=${one.label} class="tile"><dt>${safe(one.label)}</dt><dd>${number(one.value)} ${one.unit && html`<span class="note">${safe(one.unit)}</span>`}</dd></div>`)}
      ${(data.signal_gained ?? null) !== null && html`<div class="tile"><dt>Groups with a signal</dt><dd>+${count(data.signal_gained)} −${count(data.signal_lost)} <span class="note">gained, lost</span></dd></div>`}
    </dl>
    <div class="agreement">
      <section class="card"><div class="card-head"><h3>Flips</h3><span class="muted small">${plural(data.flips.length, "episode")}</span></div>
        ${kinds.length === 0
          ? html`<${Empty} title="No verdict flipped" />`
          : html`<div class="flips" tabindex="0" role="region" aria-label="Flips"><table class="grid"><caption class="sr-only">Episodes whose verdict flipped</caption>
            <thead><tr><th scope="col">Episode</th><th scope="col" class="number">Stored</th><th scope="col" class="number">New</th><th scope="col">Change</th></tr></thead>
            <tbody>${kinds.flatMap(({ kind, flips }) => flips.slice(0, MOST).map((flip) => html`<tr key=${`${kind} ${flip.id}`}>
              <td><a href=${to.episode(run, flip.id)}>${safe(flip.id)}</a></td><td class="number"><${Reward} value=${flip.stored} /></td><td class="number"><${Reward} value=${flip.new} /></td>
              <td><span class=${`badge ${kind === "to_success" || kind === "gained" ? "good" : "bad"}`}>${KINDS[kind]}</span></td></tr>`))}</tbody>
          </table>${kinds.some(({ flips }) => flips.length > MOST) && html`<p class="muted small more-rows">Only the first ${MOST} of each kind are listed.</p>`}</div>`}
      </section>
      <section class="card"><div class="card-head"><h3>Groups whose order turned</h3><span class="muted small">${plural(data.swapped.length, "group")}</span></div>
        ${data.swapped.length === 0
          ? html`<${Empty} title="No group's order turned" />`
          : html`<ul class="swapped">${data.swapped.slice(0, MOST).map((one) => html`<li key=${`${one.split} ${one.step} ${one.task}`}><a href=${to.group(run, one.split, one.step, one.task)}>${safe(one.split)} step ${one.step} · ${safe(one.task)}</a></li>`)}</ul>`}
      </section>
    </div>`;
}
