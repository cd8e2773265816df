// @ts-check
/** Values on one line: what a plain word means, and how a value is written so that it means the same. */

/** Return what a word without quotes means, by the rules of the server's YAML 1.1. @param {string} word @returns {unknown} */
export function resolvePlain(word) {
  if (/^(~|null|Null|NULL|)$/.test(word)) return null;
  if (/^(true|True|TRUE|yes|Yes|YES|on|On|ON)$/.test(word)) return true;
  if (/^(false|False|FALSE|no|No|NO|off|Off|OFF)$/.test(word)) return false;
  if (/^[-+]?(0|[1-9][\d_]*)$/.test(word)) return Number(word.replaceAll("_", ""));
  if (/^[-+]?(\d[\d_]*\.[\d_]*|\.\d+)([eE][-+]?\d+)?$/.test(word) || /^[-+]?\d+[eE][-+]\d+$/.test(word)) return Number(word.replaceAll("_", ""));
  return word;
}

/** Write a scalar. @param {unknown} value */
export function writeScalar(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "number") return writeNumber(value);
  if (typeof value !== "string") return String(value);
  const plain = /^[\w./$@~+-]([\w ./@~+$%=()<>'-]|:(?=\S))*$/u.test(value) || /^\$\{[^{}\n]*\}$/.test(value);
  const meansItself = resolvePlain(value) === value && !/^(-|---|~)$|^- |^[@%`]|\s#|\s$|^0[\dxob]|^\d[\d_]*:|^[-+]?\d/.test(value);
  return plain && meansItself && value === value.trim() ? value : quoteText(value);
}

/** YAML 1.1 takes 1e-6 for a text: a fraction always has its point. @param {number} value */
function writeNumber(value) {
  const text = String(value);
  return /^-?\d+e/.test(text) ? text.replace("e", ".0e") : text;
}

/** Write a text in double quotes, with escapes for characters that YAML would fold or refuse. @param {string} text */
export function quoteText(text) {
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
