// @ts-check
/** The tokens of a stream, in chunks that are fetched when they are needed and forgotten when others are. */

/** @typedef {import("../types.js").Tokens} Tokens */

/** Chunks that are kept: about 130,000 tokens. */
const KEPT = 64;

export class Chunks {
  /** @param {(index: number) => Promise<Tokens>} fetchChunk */
  constructor(fetchChunk) {
    this._fetch = fetchChunk;
    /** @type {Map<number, Promise<Tokens>>} */
    this._asked = new Map();
    /** @type {Map<number, Tokens>} */
    this._known = new Map();
  }

  /**
   * Return a chunk if it is here.
   * @param {number} index
   */
  peek(index) {
    return this._known.get(index);
  }

  /**
   * Return a chunk; it is asked for once, however often it is wanted. A failed request may be repeated.
   * @param {number} index
   * @returns {Promise<Tokens>}
   */
  load(index) {
    const asked = this._asked.get(index);
    if (asked) return asked;
    const answer = this._fetch(index).then(
      (chunk) => {
        this._known.set(index, chunk);
        return chunk;
      },
      (problem) => {
        this._asked.delete(index);
        throw problem;
      },
    );
    this._asked.set(index, answer);
    return answer;
  }

  /**
   * Forget the chunks that were asked for first, but for those in use; returns which.
   * @param {Set<number>} inUse
   */
  forgetOld(inUse) {
    const gone = [];
    for (const index of this._known.keys()) {
      if (this._known.size <= KEPT) break;
      if (inUse.has(index)) continue;
      this._known.delete(index);
      this._asked.delete(index);
      gone.push(index);
    }
    return gone;
  }
}
