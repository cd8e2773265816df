// @ts-check
/** Values in brackets, and quoted texts. */
import { resolvePlain } from "./scalars.js";

/** @typedef {import("./parse.js").Node} Node */

/** Return a quoted text's value. @param {string} text with its quotes */
export function unquote(text) {
  if (text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'");
  /** @type {Record<string, string>} */
  const short = { n: "\n", t: "\t", r: "\r", 0: "\0", e: "\x1b", a: "\x07", b: "\b" };
  return text.slice(1, -1).replace(/\\(x[\da-f]{2}|u[\da-f]{4}|U[\da-f]{8}|.)/gi, (_, code) => {
    if (/^[xuU]./.test(code)) return String.fromCodePoint(parseInt(code.slice(1), 16));
    return short[code] ?? code;
  });
}

/** Read a value in brackets; null if the text ends before they are closed. @param {string} text @param {number} line @param {number} end @returns {Node|null} */
export function readFlow(text, line, end) {
  const reader = new FlowReader(text, line, end);
  try {
    const node = reader.value();
    reader.space();
    return reader.at === text.length ? node : null;
  } catch (problem) {
    if (problem instanceof RangeError) return null;
    throw problem;
  }
}

class FlowReader {
  /** @param {string} text @param {number} line @param {number} end */
  constructor(text, line, end) {
    this.text = text;
    this.place = { line, end };
    this.at = 0;
  }

  space() {
    while (/\s/.test(this.text[this.at] ?? "")) this.at += 1;
  }

  /** @returns {string} */
  next() {
    this.space();
    const character = this.text[this.at];
    if (character === undefined) throw new RangeError("the text has ended");
    return character;
  }

  /** @returns {Node} */
  value() {
    const first = this.next();
    if (first === "[") return this.list();
    if (first === "{") return this.map();
    return { kind: "scalar", value: this.scalar(false), ...this.place };
  }

  /** @param {boolean} key @returns {unknown} */
  scalar(key) {
    this.space();
    const rest = this.text.slice(this.at);
    const quoted = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')/.exec(rest);
    if (quoted) {
      this.at += quoted[0].length;
      return unquote(quoted[0]);
    }
    // ${…} may hold braces and colons.
    const plain = (key ? /^(?:\$\{[^}]*\}|[^,:[\]{}]|:(?=[^\s,[\]{}]))*/ : /^(?:\$\{[^}]*\}|[^,[\]{}])*/).exec(rest)?.[0] ?? "";
    this.at += plain.length;
    return key ? plain.trim() : resolvePlain(plain.trim());
  }

  /** @returns {Node} */
  list() {
    /** @type {Node[]} */
    const items = [];
    this.at += 1;
    while (this.next() !== "]") {
      items.push(this.value());
      if (this.next() === ",") this.at += 1;
    }
    this.at += 1;
    return { kind: "list", flow: true, items, ...this.place };
  }

  /** @returns {Node} */
  map() {
    /** @type {import("./parse.js").Entry[]} */
    const entries = [];
    this.at += 1;
    while (this.next() !== "}") {
      const key = String(this.scalar(true));
      /** @type {Node} */
      let node = { kind: "scalar", value: null, ...this.place };
      if (this.next() === ":") {
        this.at += 1;
        if (!/[,}]/.test(this.next())) node = this.value();
      }
      entries.push({ key, node, ...this.place, indent: -1 });
      if (this.next() === ",") this.at += 1;
      else if (this.next() !== "}") throw new RangeError("expected a comma");
    }
    this.at += 1;
    return { kind: "map", flow: true, entries, ...this.place };
  }
}
