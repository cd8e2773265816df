// @ts-check
/** What the judge said: reward, components, its words. */
import { html } from "../html.js";
import { number, safe, signed } from "../format.js";
import { LongText } from "./long_text.js";
import { FailureView } from "./failure.js";
import { SHORT_TEXT } from "./turn_facts.js";

/** @typedef {import("../types.js").Episode} Episode */

/** Components as bars from 0 to 1; values outside have only a number. @param {{components: Record<string, number>}} props */
export function Components({ components }) {
  const names = Object.keys(components);
  if (!names.length) return null;
  return html`<table class="components"><caption class="sr-only">Components of the reward</caption><tbody>
    ${names.map((name) => html`<tr key=${name}><th scope="row" title=${safe(name)}>${safe(name)}</th>
      <td class="bar-cell" aria-hidden="true"><span style=${{ width: `${Math.round(100 * Math.max(0, Math.min(1, components[name])))}%` }}></span></td>
      <td class="number">${number(components[name], 3)}</td></tr>`)}
  </tbody></table>`;
}

/** Numbers by agent, in words. @param {{values: Record<string, number>|null, title: string, isSigned?: boolean}} props */
export function ByAgent({ values, title, isSigned = false }) {
  const names = Object.keys(values ?? {});
  if (!values || names.length < 2) return null;
  return html`<p class="small"><span class="muted">${title}</span> ${names.map((name, at) => html`${at > 0 && ", "}${safe(name)} <strong>${isSigned ? signed(values[name]) : number(values[name], 3)}</strong>`)}</p>`;
}

/** @param {{episode: Episode}} props */
export function Verdict({ episode }) {
  const { verdict } = episode;
  if (!verdict) {
    return html`<p class="muted">${episode.completed ? "The episode has no verdict." : "Failed episodes are not judged."}</p>`;
  }
  if (verdict.reason) {
    return html`<div class="stack"><h3 class="warn">The judge failed</h3><${FailureView} failure=${{ reason: verdict.reason, detail: verdict.detail ?? null, place: verdict.place, traceback: verdict.traceback }} /></div>`;
  }
  return html`<div class="stack verdict">
    <${Components} components=${verdict.components ?? {}} />
    <${ByAgent} values=${verdict.rewards ?? null} title="Rewards" />
    <${ByAgent} values=${episode.advantages} title="Advantages" isSigned=${true} />
    ${verdict.rationale ? html`<blockquote class="rationale"><${LongText} text=${verdict.rationale} limit=${2 * SHORT_TEXT} /></blockquote>` : html`<p class="muted small">The judge gave no reason.</p>`}
  </div>`;
}
