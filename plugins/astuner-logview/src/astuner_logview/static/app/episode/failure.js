// @ts-check
/** Why an episode failed: the reason, where, and the traceback. */
import { html } from "../html.js";
import { plural, safe } from "../format.js";
import { LongText } from "./long_text.js";

/** @typedef {import("../types.js").Failure} Failure */

/** @param {{failure: Failure}} props */
export function FailureView({ failure }) {
  const { reason, detail, attempt, retried, calls, tokens, place, traceback } = failure;
  const facts = [
    attempt !== null && attempt !== undefined && `attempt ${attempt}`,
    retried && "tried again",
    typeof calls === "number" && plural(calls, "call"),
    typeof tokens === "number" && plural(tokens, "token"),
    place && `at ${safe(place)}`,
  ].filter(Boolean);
  return html`<div class=${retried ? "notice warn failure" : "notice bad failure"}>
    <strong>${safe(reason)}</strong>
    ${detail && html`<${LongText} text=${detail} />`}
    ${facts.length > 0 && html`<p class="small">${facts.join(" · ")}</p>`}
    ${traceback && html`<details class="fold"><summary><span class="fold-title">Traceback</span><span class="muted truncate">${safe(lastLine(traceback))}</span></summary>
      <div class="fold-body"><${LongText} text=${traceback} css="mono" /></div></details>`}
  </div>`;
}

/** @param {string} text */
function lastLine(text) {
  return text.trimEnd().split("\n").at(-1) ?? "";
}
