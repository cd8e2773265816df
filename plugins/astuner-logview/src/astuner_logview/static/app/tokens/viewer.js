// @ts-check
/** The token page of one path: toolbar, strip, text, and what is known of a token. */
import { html, useEffect, useLayoutEffect, useMemo, useRef, useSignal, useState } from "../html.js";
import { count, safe } from "../format.js";
import { ErrorBox } from "../parts/notices.js";
import { query, setQuery, to } from "../route.js";
import { describe } from "../source.js";
import { chooseColouring, listColourings } from "./colouring.js";
import { Inspector } from "./inspector.js";
import { Legend } from "./legend.js";
import { Minimap } from "./minimap.js";
import { TokenPane } from "./pane.js";
import { useTokenKeys } from "./token_keys.js";
import { WorstTokens } from "./worst.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("./chunks.js").Chunks} Chunks */
/** @typedef {import("../types.js").ApiError} ApiError */

/** @param {{run: string, episode: string, stream: Stream, chunks: Chunks, tools: any, onDrawn: () => void}} props `tools` is what the page adds to the toolbar */
export function TokenViewer({ run, episode, stream, chunks, tools, onDrawn }) {
  const colourings = useMemo(() => listColourings(stream), [stream]);
  const colouring = chooseColouring(colourings, query("by"));
  const current = readToken(query("at"), stream.tokens);
  const scroller = useRef(/** @type {HTMLDivElement|null} */ (null));
  const pane = useRef(/** @type {TokenPane|null} */ (null));
  const hovered = useSignal(/** @type {number|null} */ (null));
  const view = useSignal(/** @type {[number, number]} */ ([0, 0]));
  const [problem, setProblem] = useState(/** @type {ApiError|null} */ (null));
  const go = (/** @type {number} */ token) => setQuery({ at: token });

  useLayoutEffect(() => {
    if (!scroller.current) return undefined;
    const made = new TokenPane(scroller.current, stream, chunks, colouring, {
      onView: (first, last) => {
        if (view.peek()[0] !== first || view.peek()[1] !== last) view.value = [first, last];
      },
      onProblem: (reason) => setProblem(describe(reason)),
      turnAddress: (call) => to.episode(run, episode, { path: query("path"), turn: call }),
    });
    pane.current = made;
    if (current === null) made.draw();
    else made.point(current);
    onDrawn();
    return () => made.close();
  }, [stream, chunks]);
  useLayoutEffect(() => pane.current?.colour(colouring), [colouring]);
  useEffect(() => pane.current?.point(current), [current]);
  useTokenKeys({ stream, colouring, current: current ?? view.peek()[0], pane, go });

  /** @param {Event} event */
  const tokenOf = (event) => {
    const span = event.target instanceof Element ? event.target.closest("[data-i]") : null;
    return span instanceof HTMLElement ? Number(span.dataset.i) : null;
  };
  return html`
    <div class="token-bar">
      ${tools}
      <label class="row">Colour by <select value=${colouring.name} title=${safe(colouring.meaning)} onChange=${(/** @type {Event} */ event) => setQuery({ by: /** @type {HTMLSelectElement} */ (event.target).value })}>
        ${colourings.map((one) => html`<option key=${one.name} value=${one.name} selected=${one.name === colouring.name}>${safe(one.label)}</option>`)}
        ${stream.measures.filter((measure) => !measure.recorded).map((measure) => html`<option key=${measure.name} disabled>${safe(measure.label)}: not recorded</option>`)}
      </select></label>
      <${Legend} colouring=${colouring} />
    </div>
    <${Minimap} stream=${stream} colouring=${colouring} view=${view} current=${current} onGo=${go} />
    <div class="token-body">
      <div class="token-text" ref=${scroller} tabindex="0" role="region" aria-label=${`Text of ${count(stream.tokens)} tokens; arrow keys move from token to token`}
        onPointerOver=${(/** @type {Event} */ event) => { hovered.value = tokenOf(event); }}
        onPointerLeave=${() => { hovered.value = null; }}
        onClick=${(/** @type {Event} */ event) => { const token = tokenOf(event); if (token !== null && !hasSelection()) go(token); }}></div>
      <aside class="token-side" aria-label="Token" tabindex="0">
        ${problem && html`<${ErrorBox} error=${problem} />`}
        <section class="token-detail"><${Inspector} run=${run} episode=${episode} stream=${stream} chunks=${chunks} hovered=${hovered} current=${current} colouring=${colouring} /></section>
        <section class="token-worst"><h2 title=${safe(colouring.meaning)}>${colouring.scale ? `Most remarkable by ${safe(colouring.label)}` : "Most remarkable tokens"}</h2>
          <${WorstTokens} stream=${stream} colouring=${colouring} current=${current} onGo=${go} /></section>
      </aside>
    </div>
  `;
}

/** Whether the reader is selecting text: a click that ends a selection chooses no token. */
function hasSelection() {
  return getSelection()?.type === "Range";
}

/** @param {string} text of the address @param {number} tokens */
function readToken(text, tokens) {
  const token = Number(text);
  return text !== "" && Number.isInteger(token) && token >= 0 && token < tokens ? token : null;
}
