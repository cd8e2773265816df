// @ts-check
/** The arguments of a tool call, for reading. */

/** @typedef {{name: string, value: string, isText: boolean}} Argument */

/**
 * Return the arguments of a call by name, or null if they are not a JSON object: the model may have written anything.
 * Text values are unquoted, so that code and newlines read as they were meant; others are indented JSON.
 * @param {string} text
 * @returns {Argument[] | null}
 */
export function readArguments(text) {
  /** @type {unknown} */
  let value;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) return null;
  return Object.entries(value).map(([name, item]) => ({
    name,
    value: typeof item === "string" ? item : (JSON.stringify(item, null, 2) ?? ""),
    isText: typeof item === "string",
  }));
}

/**
 * Return a text as indented JSON if it is an object or a list, else as it is.
 * @param {string} text
 */
export function indentJson(text) {
  const start = text.trimStart()[0];
  if (start !== "{" && start !== "[") return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
