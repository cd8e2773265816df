// @ts-check
/** A run's name, its status, and its most important numbers. */
import { html } from "../html.js";
import { count, duration, fixed, safe, short, signed } from "../format.js";
import { connection } from "../live.js";
import { isLive, StatusBadge } from "../parts/badge.js";
import { Ago } from "../parts/time.js";
import { to } from "../route.js";

/** @typedef {import("../types.js").Run} Run */

/** @param {{run: Run}} props */
export function RunHeader({ run }) {
  const live = isLive(run.status);
  return html`<header class="page-head">
    <div class="grow">
      <div class="row"><h1>${safe(run.name)}</h1><${StatusBadge} status=${run.status} detail=${run.detail} />
        ${live && connection.value === "on" && html`<span class="muted small">updates as it runs</span>`}</div>
      <p class="about">
        ${safe(run.backbone ?? "unknown backbone")}${run.model && html` · ${safe(run.model)}`} · started <${Ago} at=${run.started} />${" · "}
        <span>updated <${Ago} at=${run.updated} /></span>
        ${run.replay_of && html` · judged again from ${safe(run.replay_of)}`}
      </p>
      ${run.detail && html`<p class=${`about ${run.status.startsWith("failed") ? "bad" : ""}`}>${safe(run.detail)}</p>`}
    </div>
  </header>`;
}

/** @param {{run: Run}} props */
export function Tiles({ run }) {
  const gain = run.first_reward !== null && run.last_reward !== null ? run.last_reward - run.first_reward : null;
  const share = run.steps !== null && run.planned_steps ? run.steps / run.planned_steps : null;
  return html`<dl class="tiles">
    <${Tile} label="Reward" value=${fixed(run.last_reward)} note=${gain === null ? "of the last step" : html`<span class=${gain > 0 ? "good" : gain < 0 ? "bad" : ""}>${signed(gain)}</span> from ${fixed(run.first_reward)}`} />
    <${Tile} label="Best validation" value=${fixed(run.best_validation)} note=${run.best_step === null ? "none yet" : `at step ${run.best_step}`} />
    <${Tile} label="Steps" value=${html`${count(run.steps)}${run.planned_steps !== null && html`<span class="note"> of ${count(run.planned_steps)}</span>`}`}
      note=${share !== null && share < 1 ? html`<progress max="1" value=${share} aria-label="Steps done"></progress>` : ""} />
    <${Tile} label="Episodes" value=${html`<a href=${to.episodes(run.id)}>${short(run.episodes)}</a>`}
      note=${run.indexed !== null && run.indexed < 1 ? `${Math.round(run.indexed * 100)} % indexed` : run.failed ? html`<a class="bad" href=${to.episodes(run.id, { filter: "failed" })}>${count(run.failed)} failed</a>` : "none failed"} />
    <${Tile} label="Tokens generated" value=${short(run.tokens)} note=${run.time_s && run.tokens ? `${short(run.tokens / run.time_s)} a second` : ""} />
    <${Tile} label="Time" value=${duration(run.time_s)} note=${run.steps && run.time_s ? `${duration(run.time_s / run.steps)} a step` : ""} />
  </dl>`;
}

/** @param {{label: string, value: any, note?: any}} props */
function Tile({ label, value, note }) {
  return html`<div class="tile"><dt>${label}</dt><dd>${value}<div class="note">${note}</div></dd></div>`;
}
