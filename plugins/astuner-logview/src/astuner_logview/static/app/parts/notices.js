// @ts-check
/** What a page says when something is wrong, missing or not there yet. */
import { html } from "../html.js";
import { plural, safe } from "../format.js";

/** @typedef {import("../types.js").ApiError} ApiError */
/** @typedef {import("../html.js").Children} Children */

/** @param {{error: ApiError, retry?: () => void}} props */
export function ErrorBox({ error, retry }) {
  return html`<div class="notice bad" role="alert">
    <strong>${safe(error.error)}</strong>
    ${error.remedy && html`<p>${safe(error.remedy)}</p>`}
    ${retry && html`<div class="row"><button type="button" onClick=${retry}>Try again</button></div>`}
  </div>`;
}

/** What could not be shown; nothing if there are no problems. @param {{problems?: string[]|null}} props */
export function Problems({ problems }) {
  if (!problems?.length) return null;
  return html`<details class="notice warn" open=${problems.length < 4}>
    <summary><strong>${plural(problems.length, "problem")} while reading</strong></summary>
    <ul>${problems.map((problem) => html`<li>${safe(problem)}</li>`)}</ul>
  </details>`;
}

/** @param {{title: string, children?: Children}} props */
export function Empty({ title, children }) {
  return html`<div class="empty"><strong>${title}</strong>${children && html`<p>${children}</p>`}</div>`;
}

/** Shown while a first answer is on its way; an old answer stays on the page instead. @param {{what?: string}} props */
export function Loading({ what = "Loading" }) {
  return html`<div class="empty" role="status"><span>${what}…</span></div>`;
}

/**
 * An answer's error, its loading, or its content.
 * @template T
 * @param {{answer: {data: T|null, error: ApiError|null, loading: boolean, reload: () => void}, what?: string, children: (data: T) => any}} props
 */
export function Answer({ answer, what, children }) {
  return html`
    ${answer.error && html`<${ErrorBox} error=${answer.error} retry=${answer.reload} />`}
    ${answer.loading && answer.data !== null && html`<div class="loading-bar" aria-hidden="true"></div>`}
    ${answer.data !== null ? children(answer.data) : answer.error ? null : html`<${Loading} what=${what} />`}
  `;
}
