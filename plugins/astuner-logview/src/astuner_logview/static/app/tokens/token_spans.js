// @ts-check
/** The elements of a block of tokens: one span a token, whose class is its colour. */
import { safe } from "../format.js";

/** @typedef {import("../types.js").Tokens} Tokens */
/** @typedef {import("./blocks.js").Block} Block */
/** @typedef {import("./colouring.js").Colouring} Colouring */

const LONGEST = 400;

/**
 * Return what a token shows, which for some is not its text: a part of a character, or an id without a tokenizer.
 * @param {Tokens} chunk
 * @param {number} at index in the chunk
 */
export function showToken(chunk, at) {
  const text = chunk.texts?.[at];
  if (text === null || text === undefined) return `[${chunk.ids[at]}]`;
  if (text === "") return "◌";
  // No real token is that long: a damaged vocabulary must not stretch the page.
  return safe(text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
}

/**
 * Return the classes of a token that no colouring changes: how blanks show, and whether the model wrote it.
 * @param {Tokens} chunk
 * @param {number} at
 */
function fixedClasses(chunk, at) {
  const text = chunk.texts?.[at];
  let names = chunk.kinds[at] ? "t" : "t prompt";
  if (text === "" || text == null) return `${names} part`;
  if (text.trim() === "") names += " blank";
  if (text.includes("\t")) names += " tab";
  return names;
}

/** @type {WeakMap<Tokens, string[]>} */
const fixed = new WeakMap();

/** @param {Tokens} chunk */
function allFixedClasses(chunk) {
  let names = fixed.get(chunk);
  if (!names) {
    names = chunk.ids.map((_, at) => fixedClasses(chunk, at));
    fixed.set(chunk, names);
  }
  return names;
}

/**
 * Return the element with a block's tokens.
 * @param {Block} block
 * @param {Tokens} chunk
 * @param {Colouring} colouring
 */
export function drawTokens(block, chunk, colouring) {
  const run = document.createElement("div");
  run.className = "run";
  const names = allFixedClasses(chunk);
  for (let at = block.start - chunk.start; at < block.end - chunk.start; at += 1) {
    const span = document.createElement("span");
    span.className = `${names[at]} ${colouring.classOf(chunk, at)}`;
    span.dataset.i = String(chunk.start + at);
    write(span, showToken(chunk, at));
    run.append(span);
  }
  return run;
}

/**
 * Set a token's text; a sign that is no text, so that it is not copied, stands before each newline.
 * @param {HTMLElement} span
 * @param {string} text
 */
function write(span, text) {
  if (!text.includes("\n")) {
    span.textContent = text;
    return;
  }
  text.split("\n").forEach((line, at) => {
    if (at > 0) {
      const sign = document.createElement("i");
      sign.className = "newline";
      span.append(sign, "\n");
    }
    if (line) span.append(line);
  });
}

/**
 * Colour a block's tokens again.
 * @param {Element} run made by `drawTokens`
 * @param {Block} block
 * @param {Tokens} chunk
 * @param {Colouring} colouring
 */
export function colourTokens(run, block, chunk, colouring) {
  const names = allFixedClasses(chunk);
  let at = block.start - chunk.start;
  for (let span = run.firstElementChild; span; span = span.nextElementSibling) {
    const name = `${names[at]} ${colouring.classOf(chunk, at)}`;
    span.className = span.classList.contains("current") ? `${name} current` : name;
    at += 1;
  }
}
