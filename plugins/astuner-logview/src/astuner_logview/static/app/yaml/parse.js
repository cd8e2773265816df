// @ts-check
/**
 * Reads the YAML that people write for a run, and where each key stands, so that a form can change one key and leave
 * the rest as it is. Anchors, tags, several documents and quoted texts over lines are refused: the server checks those.
 */
import { readFlow, unquote } from "./flow.js";
import { resolvePlain } from "./scalars.js";

/** @typedef {{kind: "scalar", value: unknown, line: number, end: number}} ScalarNode */
/** @typedef {{key: string, node: Node, line: number, end: number, indent: number}} Entry lines are counted from 0; `end` is the last one */
/** @typedef {{kind: "map", flow: boolean, entries: Entry[], line: number, end: number}} MapNode */
/** @typedef {{kind: "list", flow: boolean, items: Node[], line: number, end: number}} ListNode */
/** @typedef {ScalarNode|MapNode|ListNode} Node */

/** What the parser cannot read, and where. */
export class YamlError extends Error {
  /** @param {string} message @param {number} line from 0 */
  constructor(message, line) {
    super(message);
    this.line = line;
  }
}

/** Parse a text; an empty one is an empty map. Raises YamlError. @param {string} text @returns {Node} */
export function parse(text) {
  return new Parser(text.replace(/\r\n?/g, "\n").split("\n")).document();
}

/** Return a node's value without its places. @param {Node} node @returns {any} */
export function toValue(node) {
  if (node.kind === "scalar") return node.value;
  if (node.kind === "list") return node.items.map(toValue);
  return Object.fromEntries(node.entries.map((entry) => [entry.key, toValue(entry.node)]));
}

/** The part of a line before its comment. @param {string} line */
export function stripComment(line) {
  let quote = "";
  for (let at = 0; at < line.length; at += 1) {
    const character = line[at] ?? "";
    if (quote) {
      if (quote === '"' && character === "\\") at += 1;
      else if (character === quote) quote = "";
    } else if ((character === '"' || character === "'") && /^$|[\s[{,:-]$/.test(line.slice(0, at))) quote = character;
    else if (character === "#" && (at === 0 || /\s/.test(line[at - 1] ?? ""))) return line.slice(0, at).trimEnd();
  }
  return line.trimEnd();
}

const KEY = /^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#:"'[\]{},&*!|>%@`?-](?:[^:]|:(?=\S))*?|-[^\s:](?:[^:]|:(?=\S))*?)\s*:(?:\s+(.*))?$/;

class Parser {
  /** @param {string[]} lines */
  constructor(lines) {
    this.lines = lines;
    this.at = 0;
  }

  /** @returns {Node} */
  document() {
    const first = this.peek();
    if (first && first.text === "---") this.at = first.line + 1;
    const start = this.peek();
    if (!start) return { kind: "map", flow: false, entries: [], line: 0, end: 0 };
    const node = this.block(start.indent);
    const rest = this.peek();
    if (rest) throw new YamlError(rest.text.startsWith("---") ? "the form reads one document" : "this line has another indentation than its neighbours", rest.line);
    return node;
  }

  /** The next line that is not empty and not a comment. */
  peek() {
    for (let line = this.at; line < this.lines.length; line += 1) {
      const text = stripComment(this.lines[line] ?? "");
      const bare = text.trimStart();
      if (!bare) continue;
      if (/^ *\t/.test(text)) throw new YamlError("a tab cannot indent a line", line);
      return { line, indent: text.length - bare.length, text: bare };
    }
    return null;
  }

  /** @param {number} indent @returns {Node} */
  block(indent) {
    const next = this.peek();
    if (!next) throw new YamlError("a value is missing", this.lines.length - 1);
    if (/^-(\s|$)/.test(next.text)) return this.list(indent);
    if (KEY.test(next.text)) return this.map(indent);
    this.at = next.line + 1;
    return this.inline(next.text, next.line, indent - 1);
  }

  /** @param {number} indent @returns {MapNode} */
  map(indent) {
    /** @type {MapNode} */
    const node = { kind: "map", flow: false, entries: [], line: this.peek()?.line ?? 0, end: 0 };
    for (let next = this.peek(); next && next.indent === indent && !/^-(\s|$)/.test(next.text); next = this.peek()) {
      const match = KEY.exec(next.text);
      if (!match) throw new YamlError("expected `key: value`", next.line);
      const key = /^["']/.test(match[1] ?? "") ? unquote(match[1] ?? "") : (match[1] ?? "");
      if (node.entries.some((entry) => entry.key === key)) throw new YamlError(`the key '${key}' is there twice`, next.line);
      this.at = next.line + 1;
      const value = match[2] ? this.inline(match[2], next.line, indent) : this.nested(next.line, indent);
      node.entries.push({ key, node: value, line: next.line, end: Math.max(value.end, next.line), indent });
    }
    node.end = node.entries.at(-1)?.end ?? node.line;
    return node;
  }

  /** What stands below `key:`. @param {number} line @param {number} indent @returns {Node} */
  nested(line, indent) {
    const next = this.peek();
    if (next && (next.indent > indent || (next.indent === indent && /^-(\s|$)/.test(next.text)))) return this.block(next.indent);
    return { kind: "scalar", value: null, line, end: line };
  }

  /** @param {number} indent @returns {ListNode} */
  list(indent) {
    /** @type {ListNode} */
    const node = { kind: "list", flow: false, items: [], line: this.peek()?.line ?? 0, end: 0 };
    for (let next = this.peek(); next && next.indent === indent && /^-(\s|$)/.test(next.text); next = this.peek()) {
      const rest = next.text.slice(1).trimStart();
      this.at = next.line + 1;
      if (!rest) node.items.push(this.nested(next.line, indent));
      else if (KEY.test(rest) || /^-(\s|$)/.test(rest)) {
        // Read `- key: value` as a map that begins behind the dash.
        const place = indent + next.text.length - rest.length;
        this.lines[next.line] = " ".repeat(place) + rest;
        this.at = next.line;
        node.items.push(this.block(place));
      } else node.items.push(this.inline(rest, next.line, indent));
    }
    node.end = node.items.at(-1)?.end ?? node.line;
    return node;
  }

  /** A value that begins on a key's line. @param {string} text @param {number} line @param {number} indent of the key @returns {Node} */
  inline(text, line, indent) {
    if (/^[&*!]/.test(text)) throw new YamlError("the form does not read anchors and tags", line);
    if (/^[|>]/.test(text)) return this.blockText(text, line, indent);
    if (/^[[{]/.test(text)) {
      let whole = text;
      let end = line;
      for (;;) {
        const node = readFlow(whole, line, end);
        if (node) return node;
        const next = this.peek();
        if (!next) throw new YamlError("a bracket is not closed", line);
        whole = `${whole} ${next.text}`;
        end = next.line;
        this.at = end + 1;
      }
    }
    if (/^["']/.test(text)) {
      if (!/^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')$/.test(text)) throw new YamlError("the form reads quoted texts on one line", line);
      return { kind: "scalar", value: unquote(text), line, end: line };
    }
    let whole = text;
    let end = line;
    for (let next = this.peek(); next && next.indent > indent; next = this.peek()) {
      if (KEY.test(next.text)) throw new YamlError("a value and keys below it cannot both be there", next.line);
      whole = `${whole} ${next.text}`;
      end = next.line;
      this.at = end + 1;
    }
    return { kind: "scalar", value: end > line ? whole : resolvePlain(whole), line, end };
  }

  /** A text after `|` or `>`. @param {string} head @param {number} line @param {number} indent @returns {ScalarNode} */
  blockText(head, line, indent) {
    const match = /^([|>])([+-]?)(\d?)([+-]?)$/.exec(head);
    if (!match) throw new YamlError("expected a text below `|` or `>`", line);
    const found = [];
    let last = line;
    for (; this.at < this.lines.length; this.at += 1) {
      const text = this.lines[this.at] ?? "";
      if (text.trim() && text.length - text.trimStart().length <= indent) break;
      found.push(text);
      if (text.trim()) last = this.at;
    }
    const margin = match[3] ? indent + Number(match[3]) : Math.min(...found.filter((text) => text.trim()).map((text) => text.length - text.trimStart().length));
    const rows = found.slice(0, last - line).map((text) => text.slice(margin));
    const body = match[1] === "|" ? rows.join("\n") : rows.join("\n").replace(/(\S)\n(?=\S)/g, "$1 ");
    this.at = last + 1;
    return { kind: "scalar", value: (match[2] || match[4]) === "-" ? body : `${body}\n`, line, end: last };
  }
}
