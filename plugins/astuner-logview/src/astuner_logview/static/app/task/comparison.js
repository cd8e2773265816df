// @ts-check
/** An answer at one step against an answer at another. */
import { html } from "../html.js";
import { fixed, nameRepeat, safe } from "../format.js";
import { Reward } from "../parts/badge.js";
import { setQuery, to } from "../route.js";
import { AnswerDiff } from "./answer_diff.js";

/** @typedef {import("../types.js").Play} Play */
/** @typedef {Play["episodes"][number]} Answer */

/** @param {{run: string, before: Play, after: Play, from: Answer|undefined, to: Answer|undefined}} props */
export function Comparison({ run, before, after, from, to: goal }) {
  return html`<section class="card"><div class="card-head comparison-head">
      <${Side} run=${run} mark="A" play=${before} answer=${from} name="ar" />
      <span class="faint" aria-hidden="true">→</span>
      <${Side} run=${run} mark="B" play=${after} answer=${goal} name="br" />
    </div>
    <div class="card-body"><${AnswerDiff} before=${from?.answer ?? null} after=${goal?.answer ?? null} /></div>
  </section>`;
}

/** @param {{run: string, mark: string, play: Play, answer: Answer|undefined, name: "ar"|"br"}} props */
function Side({ run, mark, play, answer, name }) {
  return html`<div class="row comparison-side">
    <strong>${mark}</strong><span class="nowrap">${play.split === "train" ? "" : `${safe(play.split)} `}step ${play.step}</span>
    <label class="row"><span class="sr-only">Repeat of ${mark}</span><select onChange=${(/** @type {Event} */ event) => setQuery({ [name]: /** @type {HTMLSelectElement} */ (event.target).value })}>
      ${play.episodes.map((episode) => html`<option key=${episode.id} value=${String(episode.repeat)} selected=${episode === answer}>${nameRepeat(episode.repeat)}: ${episode.reward === null ? "no reward" : fixed(episode.reward)}</option>`)}
    </select></label>
    ${answer && html`<span class="nowrap"><span class="muted">reward</span> <strong><${Reward} value=${answer.reward} /></strong></span><a href=${to.episode(run, answer.id)}>Episode</a>`}
  </div>`;
}
