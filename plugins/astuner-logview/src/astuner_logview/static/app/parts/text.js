// @ts-check
/** A text of a model or a file, set as text; characters that would hide or reorder it are shown as marks. */
import { html, useMemo } from "../html.js";
import { pieces } from "../format.js";

/** @param {{children?: any, text?: string|null}} props */
export function Text({ text, children }) {
  const whole = String(text ?? children ?? "");
  const parts = useMemo(() => pieces(whole), [whole]);
  if (parts.length === 1 && !parts[0]?.mark) return html`${whole}`;
  return html`${parts.map((part) => (part.mark ? html`<span class="mark" title=${part.name}>${part.text}</span>` : part.text))}`;
}

/** A search's hit in its place. @param {{snippet: [string, boolean][]}} props */
export function Snippet({ snippet }) {
  return html`${snippet.map(([text, hit]) => (hit ? html`<mark><${Text} text=${text} /></mark>` : html`<${Text} text=${text} />`))}`;
}
