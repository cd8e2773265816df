// @ts-check
/** The tokens with the most remarkable values of a measure, as a list that jumps to them. */
import { html, useEffect, useRef } from "../html.js";
import { count, number, safe } from "../format.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("./colouring.js").Colouring} Colouring */

/**
 * Return the worst tokens of a colouring; none for categories.
 * @param {Stream} stream
 * @param {Colouring} colouring
 */
export function worstOf(stream, colouring) {
  return stream.worst[colouring.name] ?? [];
}

/** @param {{stream: Stream, colouring: Colouring, current: number|null, onGo: (token: number) => void}} props */
export function WorstTokens({ stream, colouring, current, onGo }) {
  const list = useRef(/** @type {HTMLOListElement|null} */ (null));
  const worst = worstOf(stream, colouring);
  useEffect(() => {
    const chosen = /** @type {HTMLElement|null|undefined} */ (list.current?.querySelector("[aria-current]"));
    const box = list.current;
    if (!chosen || !box) return;
    // Only the list scrolls: scrollIntoView would move the page as well.
    if (chosen.offsetTop < box.scrollTop) box.scrollTop = chosen.offsetTop;
    else if (chosen.offsetTop + chosen.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = chosen.offsetTop + chosen.offsetHeight - box.clientHeight;
  }, [current]);
  if (!worst.length) return html`<p class="muted small">${colouring.scale ? "No token has a value." : "Choose a measure to list its most remarkable tokens."}</p>`;
  return html`<ol class="worst-list" ref=${list}>
    ${worst.map(({ index, text, value }) => html`<li key=${index}>
      <button type="button" aria-current=${index === current ? "true" : undefined} onClick=${() => onGo(index)} title=${`token ${count(index)}`}>
        <code dir="auto">${text === null ? count(index) : safe(text).replaceAll("\n", "⏎").replaceAll(" ", "·") || "◌"}</code>
        <span class="place">${count(index)}</span>
        <span class=${`t ${colouring.scale?.classOf(value) ?? ""}`}>${number(value, 3)}</span>
      </button>
    </li>`)}
  </ol>`;
}
