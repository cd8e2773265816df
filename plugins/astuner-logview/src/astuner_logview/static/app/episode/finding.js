// @ts-check
/** What a detector found. */
import { html } from "../html.js";
import { safe } from "../format.js";
import { LongText } from "./long_text.js";
import { SHORT_TEXT } from "./turn_facts.js";

/** @param {{finding: import("../types.js").Episode["findings"][number]}} props */
export function FindingView({ finding }) {
  return html`<div class="notice warn finding"><strong>${safe(finding.detector)}</strong><${LongText} text=${finding.evidence} limit=${SHORT_TEXT} /></div>`;
}
