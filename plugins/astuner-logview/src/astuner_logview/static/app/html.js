// @ts-check
/** What pages write with: htm bound to Preact, hooks and signals, from one place. */
import { h, Fragment, render } from "../vendor/preact.js";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.js";
import { batch, computed, effect, signal, useComputed, useSignal } from "../vendor/signals.js";
import htm from "../vendor/htm.js";

/** @typedef {import("../vendor/preact.js").ComponentChildren} Children */
/** @typedef {import("../vendor/preact.js").VNode<any>} VNode */

/** @type {(strings: TemplateStringsArray, ...values: any[]) => VNode} */
export const html = /** @type {any} */ (htm.bind(/** @type {any} */ (h)));

/**
 * Join the class names that hold.
 * @param {...(string|false|null|undefined)} names
 */
export function classes(...names) {
  return names.filter(Boolean).join(" ");
}

export { h, Fragment, render, batch, computed, effect, signal, useCallback, useComputed, useEffect, useLayoutEffect, useMemo, useRef, useSignal, useState };
