// @ts-check
/**
 * The scrolling view of a stream: only the tokens around the place that is looked at are in the page.
 *
 * It makes its elements itself, without a virtual tree: colouring 3,000 tokens again is then one pass over their classes.
 */
import { drawHead } from "./segment_head.js";
import { StreamLayout } from "./stream_layout.js";
import { colourTokens, drawTokens } from "./token_spans.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {import("./chunks.js").Chunks} Chunks */
/** @typedef {import("./colouring.js").Colouring} Colouring */
/**
 * @typedef {object} Listeners
 * @property {(first: number, last: number) => void} onView the tokens that are in view
 * @property {(problem: unknown) => void} onProblem a chunk could not be fetched
 * @property {(call: number) => string|null} turnAddress of the turn that a segment belongs to
 */

/** Tokens that are drawn at first, with what is in view: more follow a frame later. */
const FIRST_TOKENS = 800;

export class TokenPane {
  /**
   * @param {HTMLElement} scroller
   * @param {Stream} stream
   * @param {Chunks} chunks
   * @param {Colouring} colouring
   * @param {Listeners} listeners
   */
  constructor(scroller, stream, chunks, colouring, listeners) {
    this._scroller = scroller;
    this._stream = stream;
    this._chunks = chunks;
    this._colouring = colouring;
    this._listeners = listeners;
    /** @type {Map<string, HTMLElement>} */
    this._drawn = new Map();
    /** @type {number|null} */
    this._current = null;
    /** @type {{token: number, share: number}|null} the token to bring into view once its place is known */
    this._target = null;
    this._frame = 0;
    this._isFirst = true;
    this._above = document.createElement("div");
    this._holder = document.createElement("div");
    this._holder.className = "blocks";
    this._below = document.createElement("div");
    scroller.replaceChildren(this._above, this._holder, this._below);
    this._width = this._holder.clientWidth;
    this._layout = new StreamLayout(stream, chunks, this._width);
    // There is something to scroll before anything is drawn.
    this._below.style.height = `${this._layout.heights.total}px`;
    this._plan = () => {
      this._frame ||= requestAnimationFrame(() => this.draw());
    };
    scroller.addEventListener("scroll", this._plan, { passive: true });
    this._watch = new ResizeObserver(() => this._resize());
    this._watch.observe(scroller);
  }

  close() {
    cancelAnimationFrame(this._frame);
    this._watch.disconnect();
    this._scroller.removeEventListener("scroll", this._plan);
    this._scroller.replaceChildren();
  }

  /** @param {Colouring} colouring */
  colour(colouring) {
    this._colouring = colouring;
    for (const block of this._layout.blocks) {
      const run = this._drawn.get(key(block))?.querySelector(".run");
      const chunk = this._chunks.peek(block.chunk);
      if (run && chunk) colourTokens(run, block, chunk, colouring);
    }
  }

  /**
   * Mark a token, and bring it into view if it is not.
   * @param {number|null} token
   * @param {number} [share] where in the view it shall stand, from 0 to 1
   */
  point(token, share = 0.35) {
    this.spanOf(this._current)?.classList.remove("current");
    this._current = token;
    const span = this.spanOf(token);
    span?.classList.add("current");
    if (token === null || (span && this._isVisible(span))) return;
    this._target = { token, share };
    this._settle(this._target);
    this.draw();
  }

  /**
   * Return the element of a token, if it is drawn.
   * @param {number|null} token
   * @returns {HTMLElement|null}
   */
  spanOf(token) {
    if (token === null || token < 0 || token >= this._stream.tokens) return null;
    const block = this._layout.blockOf(token);
    const run = this._drawn.get(key(block))?.querySelector(".run");
    return /** @type {HTMLElement|null} */ (run?.children[token - block.start] ?? null);
  }

  /**
   * Return the token on the line above or below that is nearest to a token.
   * @param {number} token
   * @param {1|-1} by
   */
  findBeside(token, by) {
    const from = this.spanOf(token)?.getClientRects()[0];
    if (!from) return token;
    let best = token;
    let nearest = Infinity;
    /** @type {number|null} */
    let line = null;
    for (let at = token + by; ; at += by) {
      const rect = this.spanOf(at)?.getClientRects()[0];
      if (!rect || (line !== null && Math.abs(rect.top - line) >= 4)) return best;
      if (Math.abs(rect.top - from.top) < 4) continue;
      line = rect.top;
      const away = Math.abs(rect.left - from.left);
      if (away < nearest) [best, nearest] = [at, away];
    }
  }

  /**
   * Draw what belongs into the window now. The layout and the page agree before and after.
   * @param {import("./stream_layout.js").Anchor} [anchor] what stays in its place, if the layout was changed already
   */
  draw(anchor) {
    cancelAnimationFrame(this._frame);
    this._frame = 0;
    const { scrollTop: top, clientHeight: view } = this._scroller;
    const { blocks, heights } = this._layout;
    if (!blocks.length) return;
    const fixed = anchor ?? this._layout.anchor(top, view, this._current);
    const moved = () => this._layout.placeOf(fixed.token) - fixed.place;
    const [first, last] = this._layout.window(top + moved(), view, this._isFirst ? FIRST_TOKENS : undefined);
    if (this._isFirst) this._plan();
    this._isFirst = false;
    this._fill(blocks.slice(first, last));
    for (let index = first; index < last; index += 1) {
      const height = this._drawn.get(key(blocks[index]))?.getBoundingClientRect().height;
      if (height !== undefined) heights.set(index, height);
    }
    this._above.style.height = `${heights.top(first)}px`;
    this._below.style.height = `${Math.max(0, heights.total - heights.top(last))}px`;
    if (this._target) this._settle(this._target);
    else if (moved()) this._scroller.scrollTop = top + moved();
    const { scrollTop } = this._scroller;
    this._listeners.onView(this._layout.tokenAt(scrollTop), this._layout.tokenAt(scrollTop + view));
    this._want(new Set(blocks.slice(first, last).map((block) => block.chunk)));
  }

  /** Put blocks into the page, in order, and take all others out. @param {Block[]} blocks */
  _fill(blocks) {
    const wanted = new Map(blocks.map((block) => [key(block), block]));
    for (const [name, element] of this._drawn) {
      if (wanted.has(name)) continue;
      element.remove();
      this._drawn.delete(name);
    }
    let next = this._holder.firstChild;
    for (const [name, block] of wanted) {
      const drawn = this._drawn.get(name);
      if (drawn) {
        next = drawn.nextSibling;
      } else {
        const element = this._make(block);
        this._drawn.set(name, element);
        this._holder.insertBefore(element, next);
      }
    }
  }

  /** @param {Block} block */
  _make(block) {
    const segment = this._stream.segments[block.segment];
    const element = document.createElement("div");
    element.className = `block ${segment.kind === "prompt" ? "fed" : segment.trained ? "learnt" : "lost"}`;
    element.dataset.start = String(block.start);
    if (block.isHead) element.append(drawHead(segment, this._listeners.turnAddress(segment.call)));
    const chunk = this._chunks.peek(block.chunk);
    if (!chunk) {
      element.classList.add("waiting");
      element.style.height = `${this._layout.estimate(block)}px`;
      return element;
    }
    const run = drawTokens(block, chunk, this._colouring);
    element.append(run);
    const at = this._current === null ? -1 : this._current - block.start;
    if (at >= 0 && at < block.end - block.start) run.children[at].classList.add("current");
    return element;
  }

  /** Ask for chunks of the window that are not here, and forget old ones. @param {Set<number>} wanted */
  _want(wanted) {
    for (const chunk of wanted) {
      if (this._chunks.peek(chunk)) this._recut(chunk);
      else this._chunks.load(chunk).then(() => this._recut(chunk), this._listeners.onProblem);
    }
    for (const chunk of this._chunks.forgetOld(wanted)) this._recut(chunk);
  }

  /** @param {number} chunk that came or went */
  _recut(chunk) {
    if (!this._scroller.contains(this._holder) || !this._layout.isStale(chunk)) return;
    const { scrollTop: top, clientHeight: view } = this._scroller;
    const anchor = this._layout.anchor(top, view, this._current);
    for (const block of this._layout.recut(chunk)) {
      this._drawn.get(key(block))?.remove();
      this._drawn.delete(key(block));
    }
    this.draw(anchor);
  }

  _resize() {
    if (this._holder.clientWidth !== this._width) {
      const token = this._layout.tokenAt(this._scroller.scrollTop);
      this._width = this._holder.clientWidth;
      this._layout.resize(this._width);
      this._target ??= { token, share: 0 };
    }
    this._plan();
  }

  /** Scroll to the target if it is drawn, else to about where it is. @param {{token: number, share: number}} target */
  _settle({ token, share }) {
    const span = this.spanOf(token);
    const { top, height } = this._scroller.getBoundingClientRect();
    if (span) {
      this._scroller.scrollTop += span.getBoundingClientRect().top - top - height * share;
      this._target = null;
    } else {
      this._scroller.scrollTop = this._layout.placeOf(token) - height * share;
    }
    this._plan();
  }

  /** @param {HTMLElement} span */
  _isVisible(span) {
    const box = this._scroller.getBoundingClientRect();
    const rect = span.getBoundingClientRect();
    return rect.top >= box.top && rect.bottom <= box.bottom;
  }
}

/** @param {Block} block */
function key(block) {
  return `${block.start}-${block.end}-${block.isLoaded}`;
}
