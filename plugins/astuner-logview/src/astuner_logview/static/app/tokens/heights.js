// @ts-check
/** Where blocks lie: measured heights where known, estimates elsewhere. */

/** A list of heights with fast sums: a Fenwick tree. */
export class Heights {
  /** @param {number[]} heights in pixels */
  constructor(heights) {
    this._heights = Float64Array.from(heights);
    this._sums = new Float64Array(heights.length + 1);
    heights.forEach((height, index) => this._add(index, height));
  }

  get length() {
    return this._heights.length;
  }

  get total() {
    return this.top(this.length);
  }

  /** @param {number} index */
  height(index) {
    return this._heights[index];
  }

  /**
   * Return the place of an item's upper edge.
   * @param {number} index
   */
  top(index) {
    let sum = 0;
    for (let at = index; at > 0; at -= at & -at) sum += this._sums[at];
    return sum;
  }

  /**
   * Replace a height and return by how much it changed.
   * @param {number} index
   * @param {number} height
   */
  set(index, height) {
    const change = height - this._heights[index];
    this._heights[index] = height;
    this._add(index, change);
    return change;
  }

  /**
   * Return the item at a place; places outside give the first or the last.
   * @param {number} y
   */
  find(y) {
    let at = 0;
    let rest = y;
    for (let step = 2 ** Math.floor(Math.log2(this.length || 1)); step > 0; step /= 2) {
      if (at + step <= this.length && this._sums[at + step] <= rest) {
        at += step;
        rest -= this._sums[at];
      }
    }
    return Math.max(0, Math.min(at, this.length - 1));
  }

  /**
   * @param {number} index
   * @param {number} change
   */
  _add(index, change) {
    for (let at = index + 1; at < this._sums.length; at += at & -at) this._sums[at] += change;
  }
}
