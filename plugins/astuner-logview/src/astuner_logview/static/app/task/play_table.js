// @ts-check
/** The plays of a task, a row each: reward, siblings, and which of them are compared. */
import { html } from "../html.js";
import { fixed, percent, safe } from "../format.js";
import { Badge } from "../parts/badge.js";
import { setQuery, to } from "../route.js";
import { SiblingStrip } from "../episode/sibling_strip.js";
import { summarize } from "../episode/turn_facts.js";
import { chooseAnswer, playKey } from "./plays.js";

/** @typedef {import("../types.js").Play} Play */

/** @param {{run: string, task: string, plays: Play[], checkpoints: number[], before: Play|undefined, after: Play|undefined}} props */
export function PlayTable({ run, task, plays, checkpoints, before, after }) {
  return html`<div class="table-wrap as-cards plays"><table class="grid">
    <caption class="sr-only">This task by step</caption>
    <thead><tr><th scope="col">Step</th><th scope="col" class="number">Reward</th><th scope="col" class="number">Success</th><th scope="col">Repeats</th><th scope="col">Best answer</th><th scope="col">Compare</th></tr></thead>
    <tbody>${plays.map((play) => {
      const key = playKey(play);
      const answer = chooseAnswer(play, null);
      return html`<tr key=${key} class=${play === before || play === after ? "current" : undefined}>
        <td class="nowrap lead"><a href=${to.group(run, play.split, play.step, task)}>${play.split === "train" ? "" : `${safe(play.split)} `}${play.step}</a> ${checkpoints.includes(play.step) && html`<${Badge} title="A checkpoint was kept at this step">checkpoint<//>`}</td>
        <td class="number" data-label="Reward">${fixed(play.reward_mean)}</td>
        <td class="number" data-label="Success">${percent(play.success_rate, 0)}</td>
        <td class="strip-cell"><${SiblingStrip} label=${safe(`Repeats of ${key}`)} siblings=${play.episodes} current="" addressOf=${(/** @type {string} */ id) => to.episode(run, id)} /></td>
        <td class="answer-cell"><span class="truncate">${answer?.answer ? safe(summarize(answer.answer, 90)) : html`<span class="faint">no answer</span>`}</span></td>
        <td data-label="Compare"><span class="pair" role="group" aria-label=${`Compare step ${play.step}`}>
          <label title="Compare from here"><input type="radio" name="before" checked=${play === before} onChange=${() => setQuery({ a: key, ar: null })} /> A</label>
          <label title="Compare to here"><input type="radio" name="after" checked=${play === after} onChange=${() => setQuery({ b: key, br: null })} /> B</label>
        </span></td>
      </tr>`;
    })}</tbody>
  </table></div>`;
}
