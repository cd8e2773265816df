// @ts-check
/** The header above a segment: who speaks, in which call, and whether it was trained. */
import { count, safe } from "../format.js";

/** @typedef {import("../types.js").Segment} Segment */

/**
 * Return the header's element.
 * @param {Segment} segment
 * @param {string|null} address of its turn, null if there is no such page
 */
export function drawHead(segment, address) {
  const head = document.createElement("div");
  head.className = "segment-head";
  append(head, "strong", safe(segment.role ?? (segment.kind === "output" ? "assistant" : "prompt")));
  if (segment.agent && segment.agent !== "agent") append(head, "span", safe(segment.agent));
  if (address) {
    const link = append(head, "a", `call ${segment.call}`);
    link.setAttribute("href", address);
  } else {
    append(head, "span", `call ${segment.call}`);
  }
  append(head, "span", `${count(segment.end - segment.start)} tokens`);
  if (segment.kind === "output") {
    const trained = Number(segment.trained);
    const part = trained > 1 && trained < segment.end - segment.start ? `${count(trained)} trained` : "trained";
    const state = append(head, "span", trained ? part : `not trained: ${safe(segment.reason ?? "unknown")}`);
    state.className = segment.trained ? "badge accent" : "badge warn";
    if (segment.weight_version !== null) append(head, "span", `weights of step ${segment.weight_version}`);
  }
  return head;
}

/**
 * @param {HTMLElement} parent
 * @param {string} tag
 * @param {string} text
 */
function append(parent, tag, text) {
  const element = document.createElement(tag);
  element.textContent = text;
  parent.append(element);
  return element;
}
