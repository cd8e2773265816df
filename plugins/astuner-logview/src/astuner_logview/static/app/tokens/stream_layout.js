// @ts-check
/** Where each block of a stream lies in the scrolled height, known or estimated. */
import { cutChunk } from "./blocks.js";
import { Heights } from "./heights.js";
import { chooseWindow, findBlock } from "./window.js";

/** @typedef {import("../types.js").Stream} Stream */
/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {import("./chunks.js").Chunks} Chunks */

/** @typedef {{token: number, place: number}} Anchor a token and the pixel at which it was */

/** Pixels of a line, of a segment's header, of a letter; letters of a token: what estimates are made of. */
const LINE = 22;
const HEAD = 44;
const LETTER = 7.3;
const LETTERS = 4.6;

export class StreamLayout {
  /**
   * @param {Stream} stream
   * @param {Chunks} chunks
   * @param {number} width of the text, in pixels
   */
  constructor(stream, chunks, width) {
    this._stream = stream;
    this._chunks = chunks;
    this._width = width;
    /** @type {Block[]} */
    this.blocks = [];
    for (let chunk = 0; chunk * stream.chunk < stream.tokens; chunk += 1) this.blocks.push(...this._cut(chunk));
    this.heights = new Heights(this.blocks.map((block) => this.estimate(block)));
  }

  /**
   * Estimate all heights again for another width.
   * @param {number} width
   */
  resize(width) {
    this._width = width;
    this.heights = new Heights(this.blocks.map((block) => this.estimate(block)));
  }

  /** @param {Block} block */
  estimate(block) {
    const letters = Math.max(20, this._width / LETTER);
    return Math.ceil(((block.end - block.start) * LETTERS) / letters) * LINE + (block.isHead ? HEAD : 0);
  }

  /**
   * Whether a chunk that is here is still cut as if it were not.
   * @param {number} chunk
   */
  isStale(chunk) {
    const block = this.blocks[findBlock(this.blocks, chunk * this._stream.chunk)];
    return block !== undefined && block.isLoaded !== (this._chunks.peek(chunk) !== undefined);
  }

  /**
   * Cut a chunk again, after it came or was forgotten; other heights stay. Returns the blocks that are gone.
   * @param {number} chunk
   */
  recut(chunk) {
    const from = findBlock(this.blocks, chunk * this._stream.chunk);
    let to = from;
    while (to < this.blocks.length && this.blocks[to].chunk === chunk) to += 1;
    const heights = this.blocks.map((_, index) => this.heights.height(index));
    const blocks = this._cut(chunk);
    heights.splice(from, to - from, ...blocks.map((block) => this.estimate(block)));
    const gone = this.blocks.splice(from, to - from, ...blocks);
    this.heights = new Heights(heights);
    return gone;
  }

  /**
   * Return the window of blocks to draw; see `chooseWindow`.
   * @param {number} top
   * @param {number} view
   * @param {number} [budget]
   */
  window(top, view, budget) {
    return chooseWindow(this.blocks, this.heights, top, view, budget);
  }

  /** @param {number} token */
  blockOf(token) {
    return this.blocks[findBlock(this.blocks, token)];
  }

  /**
   * Return where a token is, about, if its block is not drawn.
   * @param {number} token
   */
  placeOf(token) {
    const index = findBlock(this.blocks, token);
    const block = this.blocks[index];
    return this.heights.top(index) + ((token - block.start) / (block.end - block.start)) * this.heights.height(index);
  }

  /**
   * Return the token at a place, about.
   * @param {number} y
   */
  tokenAt(y) {
    const index = this.heights.find(y);
    const block = this.blocks[index];
    const share = (y - this.heights.top(index)) / Math.max(1, this.heights.height(index));
    return Math.floor(block.start + Math.max(0, Math.min(1, share)) * (block.end - block.start));
  }

  /**
   * Return what stays in its place while heights change: the start of the block with the chosen token if it is in view,
   * else of the first block in view whose height is sure, else of the block at the upper edge.
   * @param {number} top
   * @param {number} view
   * @param {number|null} current
   * @returns {Anchor}
   */
  anchor(top, view, current) {
    const first = this.heights.find(top);
    const last = this.heights.find(top + view - 1);
    const chosen = current === null ? -1 : findBlock(this.blocks, current);
    let index = chosen >= first && chosen <= last && this.blocks[chosen].isLoaded ? chosen : first;
    if (index === first) while (index < last && !this.blocks[index].isLoaded) index += 1;
    const token = this.blocks[this.blocks[index].isLoaded ? index : first].start;
    return { token, place: this.placeOf(token) };
  }

  /** @param {number} chunk */
  _cut(chunk) {
    return cutChunk(this._stream.segments, chunk, this._stream.chunk, this._stream.tokens, this._chunks.peek(chunk));
  }
}
