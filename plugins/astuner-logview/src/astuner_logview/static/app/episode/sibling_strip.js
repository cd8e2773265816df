// @ts-check
/** The siblings of an episode as a row of links with their rewards. */
import { html } from "../html.js";
import { fixed, nameRepeat } from "../format.js";

/** @typedef {import("../types.js").Episode["siblings"][number]} SiblingLink */

/** @param {{siblings: SiblingLink[], current: string, addressOf: (id: string) => string|null, label?: string}} props an address that is null is no link */
export function SiblingStrip({ siblings, current, addressOf, label = "Siblings" }) {
  if (siblings.length < 2) return null;
  const rewards = siblings.flatMap((sibling) => (sibling.reward === null ? [] : [sibling.reward]));
  // From 0 to 1 if the rewards are: strips of different groups then compare.
  const [low, high] = [Math.min(0, ...rewards), Math.max(1, ...rewards)];
  return html`<nav class="siblings" aria-label=${label}><ol>
    ${siblings.map((sibling) => {
      const { id, repeat, reward } = sibling;
      const share = reward === null ? 0 : (reward - low) / (high - low);
      const text = `${nameRepeat(repeat)}: ${reward === null ? "no reward" : `reward ${fixed(reward)}`}`;
      const inside = html`<span class="bar-of" style=${{ height: `${Math.round(4 + 14 * share)}px` }} aria-hidden="true"></span><span aria-hidden="true">${repeat < 0 ? "g" : repeat}</span>`;
      const address = id === current ? null : addressOf(id);
      const css = reward === null ? "sibling none" : "sibling";
      return html`<li key=${id}>${address
        ? html`<a class=${css} href=${address} title=${text} aria-label=${text}>${inside}</a>`
        : html`<span class=${css} title=${text} aria-label=${text} aria-current=${id === current ? "page" : undefined} role="img">${inside}</span>`}</li>`;
    })}
  </ol></nav>`;
}
