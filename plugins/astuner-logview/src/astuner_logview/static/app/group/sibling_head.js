// @ts-check
/** The head of a sibling's column: reward and advantage, which stay in view, then what the judge said. */
import { html, classes } from "../html.js";
import { count, duration, fixed, plural, safe, signed } from "../format.js";
import { Badge, Outcome } from "../parts/badge.js";
import { to } from "../route.js";
import { FailureView } from "../episode/failure.js";
import { LongText } from "../episode/long_text.js";
import { SHORT_TEXT } from "../episode/turn_facts.js";
import { ByAgent, Components } from "../episode/verdict.js";

/** @typedef {import("../types.js").Sibling} Sibling */

/** @param {{run: string, sibling: Sibling, column: number, isFocused: boolean, rank: ""|"best"|"worst", onFocus: () => void}} props */
export function SiblingHead({ run, sibling, column, isFocused, rank, onFocus }) {
  const { id, repeat, reward, success, advantage } = sibling;
  return html`<header class=${classes("sibling-head", isFocused && "focused", rank)} style=${{ gridColumn: column }} id=${`sibling-${repeat}`} onClick=${onFocus}>
    <div class="row spread">
      <h2>${repeat < 0 ? "greedy" : html`<span class="muted">#</span>${repeat}`} ${rank && html`<${Badge} tone=${rank === "best" ? "good" : "bad"}>${rank}<//>`}</h2>
      <span class="row links"><a href=${to.episode(run, id)}>Episode</a><a href=${to.tokens(run, id, { at: sibling.parts_at?.token })}>Tokens</a></span>
    </div>
    <div class="row sibling-numbers">
      <strong class=${classes("sibling-reward", success === true && "good", success === false && "bad")} title="Reward">${reward === null ? "no reward" : fixed(reward)}</strong>
      ${advantage !== null && html`<span class="nowrap"><span class="muted">advantage</span> ${signed(advantage)}</span>`}
      ${(!sibling.completed || sibling.judge_failed) && html`<${Outcome} episode=${sibling} />`}
    </div>
  </header>`;
}

/** @param {{sibling: Sibling, sameAs: number|null, column: number}} props `sameAs` is the repeat of a sibling that said the same */
export function SiblingVerdict({ sibling, sameAs, column }) {
  const { rationale, failure, components } = sibling;
  return html`<div class="sibling-verdict" style=${{ gridColumn: column }}>
    <p class="small muted row">${plural(sibling.turns, "turn")} · ${count(sibling.tokens)} sampled · ${count(sibling.trained)} trained · ${duration(sibling.duration_s)}</p>
    ${sibling.findings.length + (sameAs === null ? 0 : 1) > 0 && html`<p class="row">
      ${sibling.findings.map((name) => html`<${Badge} key=${name} tone="warn">${safe(name)}<//>`)}
      ${sameAs !== null && html`<${Badge} title="Every turn is the same">same as ${sameAs < 0 ? "greedy" : `#${sameAs}`}<//>`}</p>`}
    <${Components} components=${components ?? {}} />
    <${ByAgent} values=${sibling.rewards} title="Rewards" /><${ByAgent} values=${sibling.advantages} title="Advantages" isSigned=${true} />
    ${rationale && html`<blockquote class="rationale"><${LongText} text=${rationale} limit=${SHORT_TEXT} /></blockquote>`}
    ${failure && html`<${FailureView} failure=${failure} />`}
    ${sibling.verdict_reason && html`<${FailureView} failure=${{ reason: `The judge failed: ${sibling.verdict_reason}`, detail: sibling.verdict_detail }} />`}
  </div>`;
}
