// @ts-check
/** How values are written for people. Every function takes null for "not known" and writes a dash. */

export const DASH = "–";
const MINUS = "−";

/**
 * Write a number with as many digits as matter: `0.1406`, `12.5`, `1,204`, `3.2e−6`.
 * @param {unknown} value
 * @param {number} [digits] significant digits
 */
export function number(value, digits = 4) {
  if (typeof value !== "number" || !Number.isFinite(value)) return DASH;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e15) return value.toExponential(Math.max(digits - 2, 0)).replace("e-", "e−").replace("e+", "e").replace("-", MINUS);
  const fraction = Number.isInteger(value) ? 0 : Math.min(Math.max(digits - 1 - Math.floor(Math.log10(size)), 0), 8);
  return new Intl.NumberFormat("en", { maximumFractionDigits: fraction }).format(value).replace("-", MINUS);
}

/** Write a number with a fixed number of decimals, for columns that line up. @param {unknown} value @param {number} [decimals] */
export function fixed(value, decimals = 3) {
  if (typeof value !== "number" || !Number.isFinite(value)) return DASH;
  const text = value.toFixed(decimals);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", MINUS);
}

/** Write a difference with its sign: `+0.25`, `−0.1`. @param {unknown} value @param {number} [decimals] */
export function signed(value, decimals = 3) {
  const text = fixed(value, decimals);
  return typeof value === "number" && value > 0 && Number(text) !== 0 ? `+${text}` : text;
}

/** Write a whole number with separators. @param {unknown} value */
export function count(value) {
  return typeof value === "number" && Number.isFinite(value) ? new Intl.NumberFormat("en", { maximumFractionDigits: 0 }).format(value) : DASH;
}

/** Write a large number in short: `902`, `12.4k`, `3.1M`. @param {unknown} value */
export function short(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return DASH;
  if (Math.abs(value) < 1000) return number(value, 3);
  return new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value).replace("K", "k");
}

/** Write a share as a percentage: `42.5 %`. @param {unknown} value 0 to 1 @param {number} [decimals] */
export function percent(value, decimals = 1) {
  if (typeof value !== "number" || !Number.isFinite(value)) return DASH;
  return `${(value * 100).toFixed(decimals).replace(/\.0+$/, "")} %`;
}

/** Write a number of things: `1 episode`, `3 episodes`. @param {number|null} value @param {string} one @param {string} [many] */
export function plural(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

/** Write a duration: `320 ms`, `4.2 s`, `3 min 05 s`, `2 h 10 min`, `3 d 4 h`. @param {unknown} seconds */
export function duration(seconds) {
  if (typeof seconds !== "number" || !Number.isFinite(seconds)) return DASH;
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [minutes, hours] = [Math.floor(whole / 60), Math.floor(whole / 3600)];
  if (minutes < 60) return `${minutes} min ${String(whole % 60).padStart(2, "0")} s`;
  if (hours < 48) return `${hours} h ${String(minutes % 60).padStart(2, "0")} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Write a size: `812 B`, `4.1 MB`. @param {unknown} value */
export function bytes(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return DASH;
  const units = ["B", "kB", "MB", "GB", "TB"];
  const power = Math.min(Math.max(Math.floor(Math.log10(Math.max(value, 1)) / 3), 0), units.length - 1);
  return `${power ? (value / 1000 ** power).toFixed(1) : value} ${units[power]}`;
}

/** Write a moment in the reader's time zone: `25 Nov 2026, 20:47:52`. @param {string|null|undefined} iso */
export function moment(iso) {
  const date = iso ? new Date(iso) : null;
  if (!date || Number.isNaN(date.getTime())) return DASH;
  return date.toLocaleString("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit" });
}

/** Write how long ago a moment was: `just now`, `5 min ago`, `3 d ago`. @param {string|null|undefined} iso @param {number} [now] */
export function ago(iso, now = Date.now()) {
  const time = iso ? new Date(iso).getTime() : NaN;
  if (Number.isNaN(time)) return DASH;
  const seconds = Math.max((now - time) / 1000, 0);
  if (seconds < 10) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** Write any value of a configuration or of metadata on one line. @param {unknown} value */
export function plain(value) {
  if (value === null || value === undefined) return DASH;
  return typeof value === "string" ? value : JSON.stringify(value);
}

// Characters that change how their neighbours look, or that have no look: they are shown as marks, never obeyed.
const HIDDEN = /[\u0000-\u0008\u000B-\u001F\u007F-\u009F\u00AD\u061C\u180E\u200B-\u200F\u2028-\u202E\u2060-\u2069\uFEFF\uFFF9-\uFFFB]|[\u{E0000}-\u{E007F}]|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/gu;
const NAMES = new Map([[0x1b, "ESC"], [0x0d, "CR"], [0x00, "NUL"], [0x07, "BEL"], [0x08, "BS"], [0xad, "SHY"], [0x200b, "ZWSP"], [0x200c, "ZWNJ"], [0x200d, "ZWJ"], [0x200e, "LRM"], [0x200f, "RLM"], [0x2028, "LS"], [0x2029, "PS"], [0x202a, "LRE"], [0x202b, "RLE"], [0x202c, "PDF"], [0x202d, "LRO"], [0x202e, "RLO"], [0x2060, "WJ"], [0x2066, "LRI"], [0x2067, "RLI"], [0x2068, "FSI"], [0x2069, "PDI"], [0xfeff, "BOM"]]);

/**
 * Split a text into ordinary pieces and characters that need a mark, such as control characters and right-to-left overrides.
 * An emoji's joiner stays where it is between two pictures.
 * @param {string} text
 * @returns {{text: string, mark: boolean, name?: string}[]} `text` of a mark is what to show: `U+202E RLO`
 */
export function pieces(text) {
  /** @type {{text: string, mark: boolean, name?: string}[]} */
  const found = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const code = /** @type {number} */ (match[0].codePointAt(0));
    if (code === 0x200d && isJoined(text, match.index)) continue;
    if (match.index > from) found.push({ text: text.slice(from, match.index), mark: false });
    const name = NAMES.get(code) ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
    found.push({ text: name, mark: true, name: `U+${code.toString(16).toUpperCase().padStart(4, "0")}` });
    from = match.index + match[0].length;
  }
  if (from < text.length || found.length === 0) found.push({ text: text.slice(from), mark: false });
  return found;
}

/** @param {string} text @param {number} at */
function isJoined(text, at) {
  return /\p{Extended_Pictographic}|\uFE0F|\p{Emoji_Modifier}/u.test(String.fromCodePoint(text.slice(Math.max(at - 2, 0)).codePointAt(0) ?? 0)) && /\p{Extended_Pictographic}/u.test(text.slice(at + 1, at + 3));
}

/** Write a text for a title or a label, where nothing can be marked: hidden characters become `␛`-like names in brackets. @param {string|null|undefined} text */
export function safe(text) {
  return pieces(text ?? "").map((piece) => (piece.mark ? `[${piece.text}]` : piece.text)).join("");
}

/** Cut a text at a whole character. @param {string} text @param {number} length in code points */
export function cut(text, length) {
  if (text.length <= length) return text;
  const characters = [...text.slice(0, length * 2)];
  return characters.length <= length ? text : `${characters.slice(0, length - 1).join("")}…`;
}

/** Name an episode among its siblings; -1 is the one at temperature 0, which is only compared with. @param {number|string} repeat */
export function nameRepeat(repeat) {
  return repeat === "greedy" || Number(repeat) < 0 ? "greedy" : `repeat ${repeat}`;
}

/**
 * The name of a task to show: an id that is a digest, as readers give to tasks without one, is cut to its beginning.
 * @param {string} id
 */
export function nameTask(id) {
  return safe(/^[0-9a-f]{16,}$/.test(id) ? id.slice(0, 8) : id);
}
