// @ts-check
/** The head of an episode: which one, how it ended, its numbers, and the ways to its neighbours. */
import { html } from "../html.js";
import { count, duration, fixed, nameRepeat, nameTask, plural, safe, signed } from "../format.js";
import { Outcome } from "../parts/badge.js";
import { CopyButton } from "../parts/copy.js";
import { to } from "../route.js";
import { api, holds } from "../source.js";
import { ShareMenu } from "./share.js";
import { SiblingStrip } from "./sibling_strip.js";

/** @typedef {import("../types.js").Episode} Episode */

/** @param {{run: string, episode: Episode, leaf: number|null}} props */
export function EpisodeHead({ run, episode, leaf }) {
  const { id, split, step, repeat, task } = episode;
  const hasGroup = holds(api(["runs", run, "group"], { split, step, task: task.id }));
  return html`<header class="episode-head">
    <div class="page-head">
      <div>
        <h1>${holds(api(["runs", run, "task"], { task: task.id })) ? html`<a href=${to.task(run, task.id)} title=${`${safe(task.id)}: this task over time`}>${nameTask(task.id)}</a>` : nameTask(task.id)} <span class="muted">${nameRepeat(repeat)}</span></h1>
        <p class="about row">${safe(split)} · step ${step} <${Outcome} episode=${episode} />
          ${episode.findings.length > 0 && html`<span class="badge warn">${plural(episode.findings.length, "finding")}</span>`}</p>
      </div>
      <div class="row no-print">
        ${hasGroup && html`<a class="button" href=${to.group(run, split, step, task.id)}>Group</a>`}
        ${leaf !== null && html`<a class="button" href=${to.tokens(run, id, { path: leaf })}>Tokens</a>`}
        <${ShareMenu} kind="episode" run=${run} values=${{ id }} />
        <${CopyButton} text=${() => location.href} label="Copy link" css="quiet" />
      </div>
    </div>
    <div class="row siblings-row">
      <${SiblingStrip} siblings=${episode.siblings} current=${id} addressOf=${(/** @type {string} */ other) => (holds(api(["runs", run, "episode"], { id: other })) ? to.episode(run, other) : null)} />
    </div>
    <dl class="tiles">
      <div class="tile"><dt>Reward</dt><dd class=${episode.success === true ? "good" : episode.success === false ? "bad" : ""}>${episode.reward === null ? "none" : fixed(episode.reward)}</dd></div>
      <div class="tile"><dt>Advantage</dt><dd>${signed(episode.advantage)}</dd></div>
      <div class="tile"><dt>Calls</dt><dd>${count(episode.calls.length)} ${episode.agents.length > 1 && html`<span class="note">${plural(episode.agents.length, "agent")}</span>`}</dd></div>
      <div class="tile"><dt>Sampled tokens</dt><dd>${count(episode.tokens)}</dd></div>
      <div class="tile"><dt>Trained</dt><dd>${count(episode.trained)} <span class="note">${Object.entries(episode.untrained).map(([reason, number]) => `${count(number)} ${safe(reason)}`).join(", ")}</span></dd></div>
      <div class="tile"><dt>Duration</dt><dd>${duration(episode.duration_s)}</dd></div>
    </dl>
  </header>`;
}
