// @ts-check
/** A text that may be very long: its start, and the rest when the reader asks for it. */
import { html, useState } from "../html.js";
import { count } from "../format.js";
import { Text } from "../parts/text.js";
import { cutText } from "../text/cut.js";
import { LONG_LINES, LONG_TEXT } from "./turn_facts.js";

/**
 * @param {{text: string, rest?: import("./whole_message.js").Rest|null, css?: string, shared?: number, limit?: number}} props
 *   `rest` is what the answer left out; the first `shared` characters are what all siblings have; at first `limit` characters are shown
 */
export function LongText({ text, rest = null, css = "", shared = 0, limit = LONG_TEXT }) {
  const [isOpen, setOpen] = useState(false);
  const part = isOpen ? { start: text, left: 0 } : cutText(text, limit, Math.ceil((LONG_LINES * limit) / LONG_TEXT));
  const hidden = part.left + (rest?.left ?? 0);
  const problem = rest?.problem ?? "";
  const open = () => {
    setOpen(true);
    rest?.load?.();
  };
  const at = Math.min(shared, part.start.length);
  // In what is hidden, siblings part behind what is shown.
  const isParting = at === shared && at < part.start.length + hidden;
  return html`<div class=${`text ${css}`} dir="auto">${at > 0
    ? html`<span class="shared"><${Text} text=${part.start.slice(0, at)} /></span>${isParting && html`<span class="parts-here" title="Here the siblings part"></span>`}<${Text} text=${part.start.slice(at)} />`
    : html`<${Text} text=${part.start} />`}${hidden > 0 && !problem && (!isOpen || rest?.load)
    ? html`<span class="more"><button type="button" class="quiet" onClick=${open}>${isOpen ? "Loading…" : `Show all: ${count(hidden)} more characters`}</button></span>`
    : hidden > 0 && html`<span class="more muted">${count(hidden)} characters are left out. ${problem}</span>`}</div>`;
}
