// @ts-check
/** Small labels: the status of a run, how an episode ended, a reward. */
import { html } from "../html.js";
import { fixed, safe } from "../format.js";

/** @typedef {import("../types.js").EpisodeRow} EpisodeRow */

/** @type {Record<string, string>} */
const TONES = { running: "accent", finished: "good", completed: "good", done: "good", failed: "bad", crashed: "bad", killed: "bad", stopped: "warn", interrupted: "warn", paused: "warn", stale: "warn" };

/** @param {string} status */
export function isLive(status) {
  return /^(running|starting|paused|pausing)/.test(status);
}

/** @param {{status: string, detail?: string|null}} props */
export function StatusBadge({ status, detail }) {
  const word = status.split(/[\s:(]/)[0] ?? "";
  return html`<span class=${`badge ${TONES[word] ?? ""}`} title=${detail ? safe(detail) : undefined}>
    ${isLive(status) && html`<span class="live-dot on" aria-hidden="true"></span>`}${safe(status)}
  </span>`;
}

/** @param {{children: any, tone?: "good"|"bad"|"warn"|"accent"|"", title?: string, href?: string}} props */
export function Badge({ children, tone = "", title, href }) {
  return href ? html`<a class=${`badge ${tone}`} href=${href} title=${title}>${children}</a>` : html`<span class=${`badge ${tone}`} title=${title}>${children}</span>`;
}

/** How an episode ended: success, no success, failed with its reason, or a judge that failed. @param {{episode: Pick<EpisodeRow, "completed"|"reason"|"judge_failed"|"success">}} props */
export function Outcome({ episode }) {
  if (!episode.completed) return html`<${Badge} tone="bad">${safe(episode.reason ?? "failed")}<//>`;
  if (episode.judge_failed) return html`<${Badge} tone="warn">judge failed<//>`;
  if (episode.success === true) return html`<${Badge} tone="good">success<//>`;
  if (episode.success === false) return html`<${Badge}>no success<//>`;
  return html`<${Badge}>completed<//>`;
}

/** @param {{value: number|null}} props */
export function Reward({ value }) {
  if (value === null) return html`<span class="faint" title="no reward">none</span>`;
  return html`<span>${fixed(value)}</span>`;
}
