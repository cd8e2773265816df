// @ts-check
/** A button that copies a text and says so. */
import { html, useState } from "../html.js";

/** Copy a text; resolves to whether that worked. @param {string} text */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Pages from disk have no clipboard: a hidden field still copies.
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "sr-only";
    document.body.append(field);
    field.select();
    const worked = document.execCommand("copy");
    field.remove();
    return worked;
  }
}

/** Save a text as a file. @param {string} name @param {string} text @param {string} [type] */
export function saveText(name, text, type = "text/plain") {
  const anchor = document.createElement("a");
  anchor.href = URL.createObjectURL(new Blob([text], { type }));
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(anchor.href), 10_000);
}

/** @param {{text: string|(() => string), label?: string, css?: string}} props */
export function CopyButton({ text, label = "Copy", css = "" }) {
  const [state, setState] = useState("");
  const act = async () => {
    const worked = await copyText(typeof text === "function" ? text() : text);
    setState(worked ? "Copied" : "Not copied");
    setTimeout(() => setState(""), 1600);
  };
  return html`<button type="button" class=${css} onClick=${act}><span aria-live="polite">${state || label}</span></button>`;
}
