// @ts-check
/** Changes one key of a YAML text and leaves its other lines, comments among them, as they are. */
import { parse, stripComment, toValue } from "./parse.js";
import { quoteText, writeScalar } from "./scalars.js";

/** @typedef {import("./parse.js").Entry} Entry */
/** @typedef {import("./parse.js").MapNode} MapNode */

const WIDTH = 110;
// Where the comment of an added line begins.
const COLUMN = 28;

/** Return the value at a path, or undefined. @param {any} tree @param {string[]} path */
export function at(tree, path) {
  return path.reduce((node, key) => (node !== null && typeof node === "object" ? node[key] : undefined), tree);
}

/**
 * Set a key; missing sections above it are added. Raises YamlError if the text cannot be read.
 * @param {string} text @param {string[]} path @param {unknown} value
 * @param {(path: string[]) => string|null} [describe] the comment for a line that is added
 */
export function setKey(text, path, value, describe = () => null) {
  const root = parse(text);
  const lines = text.split("\n");
  if (root.kind !== "map" || root.flow) return writeLines(nest(path, value, toMap(toValue(root))), 0).join("\n") + "\n";
  const { parent, entry, depth } = find(root, path);
  if (!entry) return insert(lines, root, parent, path, depth, value, describe);
  // The rest of the path is inside brackets, or where something that is no section stands.
  const whole = depth === path.length ? value : nest(path.slice(depth), value, toMap(toValue(entry.node)));
  const comment = commentOf(lines[entry.line] ?? "");
  const written = writeEntry(entry.key, whole, entry.indent);
  if (comment && written[0] !== undefined) written[0] = `${written[0]}${comment}`;
  lines.splice(entry.line, entry.end - entry.line + 1, ...written);
  return lines.join("\n");
}

/** Remove a key, and sections that are empty without it. @param {string} text @param {string[]} path */
export function removeKey(text, path) {
  const root = parse(text);
  const lines = text.split("\n");
  if (root.kind !== "map") return text;
  const chain = [];
  /** @type {import("./parse.js").Node} */
  let node = root;
  for (const key of path) {
    /** @type {Entry|undefined} */
    const entry = node.kind === "map" ? node.entries.find((item) => item.key === key) : undefined;
    if (!entry || node.kind !== "map") return text;
    chain.push({ map: node, entry });
    node = entry.node;
  }
  let level = chain.length - 1;
  while (level > 0 && chain[level]?.map.entries.length === 1) level -= 1;
  // Inside brackets, the entry that holds the brackets is written again.
  let outer = level;
  while (outer > 0 && chain[outer]?.map.flow) outer -= 1;
  const link = chain[outer];
  if (!link) return text;
  if (outer < level) {
    const tree = toMap(toValue(link.entry.node));
    dropKey(tree, path.slice(outer + 1, level + 1));
    lines.splice(link.entry.line, link.entry.end - link.entry.line + 1, ...writeEntry(link.entry.key, tree, link.entry.indent));
  } else lines.splice(link.entry.line, link.entry.end - link.entry.line + 1);
  return lines.join("\n");
}

/** @param {MapNode} root @param {string[]} path */
function find(root, path) {
  /** @type {MapNode} */
  let parent = root;
  for (let depth = 0; depth < path.length; depth += 1) {
    const entry = parent.entries.find((item) => item.key === path[depth]);
    if (!entry) return { parent, entry: null, depth };
    const inner = entry.node;
    if (depth === path.length - 1 || inner.kind !== "map" || inner.flow) return { parent, entry, depth: depth + 1 };
    parent = inner;
  }
  return { parent, entry: null, depth: 0 };
}

/** @param {string[]} lines @param {MapNode} root @param {MapNode} parent @param {string[]} path @param {number} depth @param {unknown} value @param {(path: string[]) => string|null} describe */
function insert(lines, root, parent, path, depth, value, describe) {
  const indent = parent.entries[0]?.indent ?? 0;
  const step = root.entries.flatMap((entry) => (entry.node.kind === "map" && !entry.node.flow && entry.node.entries[0] ? [entry.node.entries[0].indent] : []))[0] || 2;
  const added = [];
  for (let level = depth; level < path.length - 1; level += 1) added.push(`${" ".repeat(indent + (level - depth) * step)}${writeKey(path[level] ?? "")}:`);
  const written = writeEntry(path.at(-1) ?? "", value, indent + (path.length - 1 - depth) * step);
  const comment = describe(path);
  if (comment && written.length === 1) written[0] = addComment(written[0] ?? "", comment);
  added.push(...written);
  let place = parent.entries.length ? parent.end + 1 : lines.length;
  while (parent.entries.length === 0 && place > 0 && !(lines[place - 1] ?? "").trim()) place -= 1;
  lines.splice(place, 0, ...added);
  const text = lines.join("\n");
  return text.endsWith("\n") ? text : `${text}\n`;
}

/** @param {string} line @param {string} comment */
function addComment(line, comment) {
  const start = line.padEnd(COLUMN);
  const room = Math.max(WIDTH - start.length - 4, 30);
  const short = comment.replace(/\s+/g, " ");
  return `${start}${line.length >= COLUMN ? "  " : ""}# ${short.length > room ? `${short.slice(0, short.lastIndexOf(" ", room))} …` : short}`;
}

/** The comment of a line with the blanks before it. @param {string} line */
function commentOf(line) {
  return line.slice(stripComment(line).length).trim() ? line.slice(stripComment(line).length) : "";
}

/** Write an entry of a map as lines. @param {string} key @param {unknown} value @param {number} indent @returns {string[]} */
function writeEntry(key, value, indent) {
  const start = `${" ".repeat(indent)}${writeKey(key)}:`;
  if (isTree(value)) return Object.keys(value).length ? [start, ...writeLines(value, indent + 2)] : [`${start} {}`];
  if (Array.isArray(value) && value.some((item) => item !== null && typeof item === "object")) return [start, ...value.map((item) => `${" ".repeat(indent + 2)}- ${writeInline(item)}`)];
  if (typeof value === "string" && value.includes("\n")) {
    const [rows, ending] = value.endsWith("\n") ? [value.slice(0, -1).split("\n"), "|"] : [value.split("\n"), "|-"];
    const simple = rows[0] && !/^\s/.test(rows[0]) && rows.at(-1) && rows.every((row) => (!row || row.trim()) && !/[^\P{C}\t]|[\u2028\u2029]/u.test(row));
    if (simple) return [`${start} ${ending}`, ...rows.map((row) => (row ? `${" ".repeat(indent + 2)}${row}` : ""))];
  }
  return [`${start} ${writeInline(value)}`];
}

/** @param {Record<string, unknown>} tree @param {number} indent @returns {string[]} */
function writeLines(tree, indent) {
  return Object.entries(tree).flatMap(([key, value]) => writeEntry(key, value, indent));
}

/** @param {unknown} value @returns {string} */
function writeInline(value) {
  if (Array.isArray(value)) return `[${value.map(writeItem).join(", ")}]`;
  if (isTree(value)) return `{${Object.entries(value).map(([key, item]) => `${writeKey(key)}: ${writeItem(item)}`).join(", ")}}`;
  return writeScalar(value);
}

/** A value inside brackets, where a comma would end it. @param {unknown} value @returns {string} */
function writeItem(value) {
  return typeof value === "string" && /[:$]/.test(value) ? quoteText(value) : writeInline(value);
}

/** @param {string} key */
function writeKey(key) {
  return /^[A-Za-z_][\w./-]*$/.test(key) && writeScalar(key) === key ? key : quoteText(key);
}

/** @param {unknown} value @returns {value is Record<string, unknown>} */
function isTree(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/** @param {unknown} value @returns {Record<string, unknown>} */
function toMap(value) {
  return isTree(value) ? value : {};
}

/** @param {string[]} path @param {unknown} value @param {Record<string, unknown>} tree @returns {Record<string, unknown>} */
function nest(path, value, tree) {
  const [first = "", ...rest] = path;
  return { ...tree, [first]: rest.length ? (nest(rest, value, toMap(tree[first]))) : value };
}

/** @param {Record<string, unknown>} tree @param {string[]} path */
function dropKey(tree, path) {
  const [first = "", ...rest] = path;
  if (!rest.length) delete tree[first];
  else dropKey(toMap(tree[first]), rest);
}
