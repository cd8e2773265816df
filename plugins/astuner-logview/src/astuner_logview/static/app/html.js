// @ts-check
/** What pages write with: htm bound to Preact, hooks and signals, from one place. */
import { h, Fragment, render } from "../vendor/preact.js";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { batch, computed, effect, signal, useComputed, useSignal } from "../vendor/signals.js";
import htm from "../vendor/htm.js";
import { safe } from "./format.js";

/** @typedef {import("../vendor/preact.js").ComponentChildren} Children */
/** @typedef {import("../vendor/preact.js").VNode<any>} VNode */

// Attributes that people read, or hear.
const READ = ["title", "aria-label", "aria-valuetext", "aria-description", "placeholder", "alt", "label"];

/**
 * Make a node in which no text can turn its neighbours around or hide: names, ids and paths come from anywhere.
 * @param {any} type
 * @param {any} props
 * @param {any[]} children
 */
function make(type, props, ...children) {
  for (const name of typeof type === "string" && props ? READ : []) if (typeof props[name] === "string") props[name] = safe(props[name]);
  return h(type, props, ...children.map(show));
}

/** @param {any} child @returns {any} */
function show(child) {
  return typeof child === "string" ? safe(child) : Array.isArray(child) ? child.map(show) : child;
}

/** @type {(strings: TemplateStringsArray, ...values: any[]) => VNode} */
export const html = /** @type {any} */ (htm.bind(/** @type {any} */ (make)));

/**
 * Join the class names that hold.
 * @param {...(string|false|null|undefined)} names
 */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}

export { h, Fragment, render, batch, computed, effect, signal, useCallback, useComputed, useEffect, useLayoutEffect, useMemo, useRef, useSignal, useState };
