// @ts-check
/** Two answers and what changed between them, word by word. */
import { html, classes, useMemo } from "../html.js";
import { percent } from "../format.js";
import { LongText } from "../episode/long_text.js";
import { Text } from "../parts/text.js";
import { query, setQuery } from "../route.js";
import { diffWords, measureLikeness } from "../text/diff.js";

/** @typedef {import("../text/diff.js").Change} Change */

/** Answers that share less than this are shown side by side: between the lines, little would be left to read. */
const ALIKE = 0.4;

/** @param {{before: string|null, after: string|null}} props */
export function AnswerDiff({ before, after }) {
  const changes = useMemo(() => diffWords(before ?? "", after ?? ""), [before, after]);
  if (!before && !after) return html`<p class="muted">Neither episode has an answer.</p>`;
  if (before === after) return html`<div><p class="muted small">The answers are the same.</p><${LongText} text=${before ?? ""} /></div>`;
  const likeness = measureLikeness(changes);
  const view = query("diff", likeness < ALIKE ? "beside" : "inline");
  const draw = (/** @type {Change["kind"]|null} */ without) => changes.filter((change) => change.kind !== without).map((change, at) => html`<${Part} key=${at} change=${change} />`);
  return html`<div class="stack">
    <div class="row spread"><p class="muted small">${percent(likeness, 0)} of the words are the same.</p>
      <div class="segmented" role="group" aria-label="How the difference is shown">
        <button type="button" aria-pressed=${view !== "beside"} onClick=${() => setQuery({ diff: "inline" })}>Inline</button>
        <button type="button" aria-pressed=${view === "beside"} onClick=${() => setQuery({ diff: "beside" })}>Side by side</button>
      </div></div>
    ${view === "beside"
      ? html`<div class="beside"><div class="text diff" dir="auto">${draw("added")}</div><div class="text diff" dir="auto">${draw("removed")}</div></div>`
      : html`<div class="text diff" dir="auto">${draw(null)}</div>`}
  </div>`;
}

/** @param {{change: Change}} props */
function Part({ change }) {
  if (change.kind === "same") return html`<${Text} text=${change.text} />`;
  const isAdded = change.kind === "added";
  const inside = html`<span class="sr-only">${isAdded ? "added: " : "removed: "}</span><${Text} text=${change.text} />`;
  return isAdded ? html`<ins class=${classes(!change.text.trim() && "blank")}>${inside}</ins>` : html`<del class=${classes(!change.text.trim() && "blank")}>${inside}</del>`;
}
