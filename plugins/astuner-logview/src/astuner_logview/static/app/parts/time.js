// @ts-check
/** A moment as people say it; pointing at it shows the exact one. */
import { html } from "../html.js";
import { ago, moment } from "../format.js";

/** @param {{at: string|null|undefined, class?: string}} props */
export function Ago({ at, class: style }) {
  return html`<time class=${style} datetime=${at} title=${moment(at)}>${ago(at)}</time>`;
}
