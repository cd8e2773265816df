// @ts-check
/** All that is known of one token: the one under the pointer, else the one that is chosen. */
import { html, useEffect, useState } from "../html.js";
import { count, number, safe } from "../format.js";
import { to } from "../route.js";
import { describeClipped } from "./colouring.js";
import { findSegment } from "./blocks.js";
import { makeScale } from "./scale.js";
import { showToken } from "./token_spans.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("../types.js").Tokens} Tokens */
/** @typedef {import("./chunks.js").Chunks} Chunks */
/** @typedef {import("./colouring.js").Colouring} Colouring */
/** @typedef {import("../../vendor/signals.js").Signal<number|null>} TokenSignal */

/** @param {{run: string, episode: string, stream: Stream, chunks: Chunks, hovered: TokenSignal, current: number|null, colouring: Colouring}} props */
export function Inspector({ run, episode, stream, chunks, hovered, current, colouring }) {
  const token = hovered.value ?? current;
  const chunk = useChunk(chunks, token === null ? null : Math.floor(token / stream.chunk));
  if (token === null) return html`<${Hint} stream=${stream} colouring=${colouring} />`;
  if (!chunk) return html`<p class="muted small" role="status">Loading token ${count(token)}…</p>`;
  const at = token - chunk.start;
  const segment = stream.segments[findSegment(stream.segments, token)];
  const recorded = stream.measures.filter((measure) => measure.recorded);
  const missing = stream.measures.filter((measure) => !measure.recorded);
  return html`
    <p class="token-shown"><code dir="auto">${quote(chunk, at)}</code></p>
    <span class="sr-only" aria-live="polite">${token === current ? summarize(stream, chunk, at) : ""}</span>
    <dl class="token-facts">
      <dt>Token</dt><dd>${count(token)} of ${count(stream.tokens)}</dd>
      <dt>Id</dt><dd>${chunk.ids[at]}</dd>
      <dt>Call</dt><dd><a href=${to.episode(run, episode, { turn: chunk.calls[at] })}>${chunk.calls[at]}</a>${segment?.agent ? ` · ${safe(segment.agent)}` : ""}</dd>
      <dt>Kind</dt><dd>${chunk.kinds[at] ? "sampled" : `prompt${segment?.role ? ` · ${safe(segment.role)}` : ""}`}</dd>
      ${chunk.kinds[at] === 1 && html`<dt>Trained</dt><dd>${chunk.trained[at] ? html`<span class="badge accent">yes</span>` : html`<span class="badge warn">${safe(chunk.reasons[at] ?? "no")}</span>`}</dd>`}
    </dl>
    <table class="token-measures"><caption class="sr-only">Measures of token ${token}</caption><tbody>
      ${recorded.map((measure) => html`<${Row} key=${measure.name} measure=${measure} chunk=${chunk} at=${at} />`)}
    </tbody></table>
    ${missing.length > 0 && html`<details class="small muted"><summary>${missing.length} not recorded</summary>
      <dl class="missing">${missing.map((measure) => html`<dt key=${measure.name}>${safe(measure.label)}</dt><dd>${safe(measure.why_not ?? "")}</dd>`)}</dl>
    </details>`}
  `;
}

/** What the colours mean and how to move, while no token is chosen. @param {{stream: Stream, colouring: Colouring}} props */
function Hint({ stream, colouring }) {
  return html`<div class="stack small">
    <div><h2>${safe(colouring.label)}</h2><p class="muted">${safe(colouring.meaning)}</p></div>
    <p>Point at a token to see its numbers; click it to keep it here.</p>
    <dl class="token-facts">
      <dt><kbd>←</kbd> <kbd>→</kbd></dt><dd>token by token</dd>
      <dt><kbd>↑</kbd> <kbd>↓</kbd></dt><dd>line by line</dd>
      <dt><kbd>j</kbd> <kbd>k</kbd></dt><dd>next and previous segment</dd>
      <dt><kbd>n</kbd> <kbd>p</kbd></dt><dd>through the list below</dd>
    </dl>
    ${stream.record?.text && html`<p class="muted">${safe(stream.record.text)}</p>`}
  </div>`;
}

/** @param {{measure: import("../types.js").Measure, chunk: Tokens, at: number}} props */
function Row({ measure, chunk, at }) {
  if (measure.name === "clipped") {
    const text = describeClipped(chunk.clipped?.[at]);
    return html`<tr title=${safe(measure.meaning)}><th scope="row">${safe(measure.label)}</th><td>${text ?? "–"}</td><td></td></tr>`;
  }
  const value = chunk.values[measure.name]?.[at] ?? null;
  return html`<tr title=${safe(measure.meaning)}>
    <th scope="row">${safe(measure.label)}</th><td>${number(value)}</td>
    <td><span class=${`t sample ${makeScale(measure).classOf(value)}`} aria-hidden="true"></span></td>
  </tr>`;
}

/**
 * Use a chunk of tokens once it is here.
 * @param {Chunks} chunks
 * @param {number|null} index
 * @returns {Tokens|null}
 */
export function useChunk(chunks, index) {
  const [, setCount] = useState(0);
  const chunk = index === null ? undefined : chunks.peek(index);
  useEffect(() => {
    if (index === null || chunk) return undefined;
    let isWanted = true;
    chunks.load(index).then(() => isWanted && setCount((value) => value + 1), () => {});
    return () => {
      isWanted = false;
    };
  }, [chunks, index]);
  return chunk ?? null;
}

/** @param {Tokens} chunk @param {number} at */
function quote(chunk, at) {
  if (chunk.texts?.[at] === "") return "a part of a character";
  return showToken(chunk, at).replaceAll("\n", "⏎").replaceAll("\t", "⇥").replaceAll(" ", "·");
}

/** @param {Stream} stream @param {Tokens} chunk @param {number} at */
function summarize(stream, chunk, at) {
  const numbers = stream.measures.flatMap((measure) => {
    const value = chunk.values[measure.name]?.[at];
    return measure.recorded && typeof value === "number" ? [`${measure.label} ${number(value, 3)}`] : [];
  });
  const state = chunk.kinds[at] ? (chunk.trained[at] ? "trained" : `not trained, ${chunk.reasons[at] ?? "unknown"}`) : "prompt";
  return safe(`Token ${chunk.start + at}: ${quote(chunk, at)}; ${[state, ...numbers].join("; ")}`);
}
