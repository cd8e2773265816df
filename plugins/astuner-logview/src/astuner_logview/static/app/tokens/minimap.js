// @ts-check
/** The whole stream as a strip: colours as in the text, what is in view, and a slider to go elsewhere. */
import { html, useEffect, useRef } from "../html.js";
import { count } from "../format.js";
import { colours } from "../theme.js";
import { columnsAt, pickStrongest, tokenAt } from "./minimap_columns.js";
import { readPalette } from "./palette.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("./colouring.js").Colouring} Colouring */
/** @typedef {import("../../vendor/signals.js").Signal<[number, number]>} ViewSignal */

const HEIGHT = 44;
const BAND = 7;

/** @param {{stream: Stream, colouring: Colouring, view: ViewSignal, current: number|null, onGo: (token: number) => void}} props */
export function Minimap({ stream, colouring, view, current, onGo }) {
  const canvas = useRef(/** @type {HTMLCanvasElement|null} */ (null));
  const theme = colours.value;
  useEffect(() => {
    const element = canvas.current;
    if (!element) return undefined;
    const draw = () => paint(element, stream, colouring);
    draw();
    const watch = new ResizeObserver(draw);
    watch.observe(element);
    return () => watch.disconnect();
  }, [stream, colouring, theme]);

  /** @param {PointerEvent} event */
  const go = (event) => {
    const box = /** @type {HTMLElement} */ (event.currentTarget).getBoundingClientRect();
    onGo(tokenAt((event.clientX - box.left) / box.width, stream.tokens));
  };
  /** @param {PointerEvent} event */
  const press = (event) => {
    /** @type {HTMLElement} */ (event.currentTarget).setPointerCapture(event.pointerId);
    go(event);
  };
  const [first, last] = view.value;
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const page = Math.max(1, last - first);
    /** @type {Record<string, number>} */
    const goals = { ArrowRight: first + page / 4, ArrowLeft: first - page / 4, PageDown: first + page, PageUp: first - page, Home: 0, End: stream.tokens - 1 };
    const goal = goals[event.key];
    if (goal === undefined) return;
    event.preventDefault();
    onGo(Math.round(Math.max(0, Math.min(stream.tokens - 1, goal))));
  };
  const share = (/** @type {number} */ token) => `${(100 * token) / Math.max(1, stream.tokens)}%`;
  return html`<div class="minimap" role="slider" tabindex="0" aria-label="Place in the stream" aria-valuemin="0" aria-valuemax=${stream.tokens - 1}
    aria-valuenow=${first} aria-valuetext=${`tokens ${count(first)} to ${count(last)} of ${count(stream.tokens)}`}
    onPointerDown=${press} onPointerMove=${(/** @type {PointerEvent} */ event) => event.buttons === 1 && go(event)} onKeyDown=${move}>
    <canvas ref=${canvas} aria-hidden="true"></canvas>
    <span class="minimap-view" style=${{ left: share(first), width: share(Math.max(1, last - first)) }}></span>
    ${current !== null && html`<span class="minimap-current" style=${{ left: share(current + 0.5) }}></span>`}
  </div>`;
}

/**
 * Draw the strip: the measure above, below it a band that is dark where tokens were sampled, and full where they were trained.
 * @param {HTMLCanvasElement} canvas
 * @param {Stream} stream
 * @param {Colouring} colouring
 */
function paint(canvas, stream, colouring) {
  const context = canvas.getContext("2d");
  const pixels = Math.round(canvas.clientWidth * devicePixelRatio);
  if (!context || !pixels || !canvas.parentElement) return;
  const scale = devicePixelRatio;
  canvas.width = pixels;
  canvas.height = HEIGHT * scale;
  const { minimap } = stream;
  const names = [...(colouring.scale?.bins.map((bin) => bin.className) ?? []), "trained", "untrained", "band-prompt", "band-output", "band-trained"];
  const palette = readPalette(names, canvas.parentElement);
  const values = minimap.of[colouring.name];
  for (let pixel = 0; pixel < pixels; pixel += 1) {
    const [from, to] = columnsAt(pixel, pixels, minimap.columns);
    const sampled = minimap.kind[from] === 1;
    const trained = pickStrongest(minimap.trained, from, to, 0) ?? 0;
    let name = trained > 0.5 ? "trained" : sampled ? "untrained" : "";
    if (colouring.scale) name = values ? colouring.scale.classOf(pickStrongest(values, from, to, colouring.scale.centre)) : "";
    fill(context, palette.get(name), pixel, 0, (HEIGHT - BAND - 2) * scale);
    fill(context, palette.get(sampled ? (trained > 0 ? "band-trained" : "band-output") : "band-prompt"), pixel, (HEIGHT - BAND) * scale, BAND * scale);
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string|undefined} colour
 * @param {number} x
 * @param {number} y
 * @param {number} height
 */
function fill(context, colour, x, y, height) {
  if (!colour) return;
  context.fillStyle = colour;
  context.fillRect(x, y, 1, height);
}
