// @ts-check
/** The keyboard: what each page binds, and the help that lists it. Keys never act while one types. */
import { signal, useLayoutEffect, useRef } from "./html.js";
import { navigate, to, route } from "./route.js";

/** @typedef {{keys: string, text: string, act: () => void}} Binding `keys` is one key, or a sequence with a space: `g r` */

/** @type {import("../vendor/signals.js").Signal<{title: string, bindings: Binding[]}[]>} */
export const bound = signal([]);
export const helpOpen = signal(false);

/** Order in which the help lists the keys that every page may bind. */
export const MEANINGS = {
  next: "j", previous: "k", right: "l", left: "h", nextStep: "]", previousStep: "[", search: "/", copy: "y", open: "Enter",
};

let pending = "";
let pendingSince = 0;

/**
 * Bind keys while a component is mounted. Bindings of the component that was mounted last win.
 * What a key does is that of the last drawing; `inputs` say when the help's list changes.
 * @param {string} title heading in the help
 * @param {Binding[]} bindings
 * @param {unknown[]} [inputs]
 */
export function useKeys(title, bindings, inputs = []) {
  const entry = useRef({ title, bindings }).current;
  entry.title = title;
  // Not in an effect: a second key may be pressed before it runs.
  entry.bindings = bindings;
  // Before the page is painted: what one sees can be used.
  useLayoutEffect(() => {
    bound.value = [...bound.peek().filter((item) => item !== entry), entry];
    return () => {
      bound.value = bound.peek().filter((item) => item !== entry);
    };
  }, inputs);
}

/** @param {EventTarget|null} target */
function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || target.matches("input:not([type=checkbox]):not([type=radio]):not([type=button]), textarea, select");
}

/** @param {KeyboardEvent} event */
function press(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape" && helpOpen.value) {
    helpOpen.value = false;
    event.preventDefault();
    return;
  }
  if (isTyping(event.target) || helpOpen.value && event.key !== "?") return;
  // A button or link answers Enter and Space itself.
  if ((event.key === "Enter" || event.key === " ") && event.target instanceof HTMLElement && event.target.closest("a, button, summary, [role=tab], [role=button]")) return;
  const wanted = performance.now() - pendingSince < 1200 && pending ? `${pending} ${event.key}` : event.key;
  const all = bound.peek().flatMap((entry) => entry.bindings).reverse();
  const found = all.find((binding) => binding.keys === wanted) ?? all.find((binding) => binding.keys === event.key);
  pending = all.some((binding) => binding.keys.startsWith(`${event.key} `)) ? event.key : "";
  pendingSince = performance.now();
  if (found) {
    event.preventDefault();
    found.act();
  }
}

/** Focus the page's search box, if it has one. */
export function focusSearch() {
  const box = document.querySelector("main [data-search]") ?? document.querySelector("main input[type=search]");
  if (box instanceof HTMLInputElement) {
    box.focus();
    box.select();
  }
}

/** Bind the keys that work on every page. */
export function startKeys() {
  const inRun = (/** @type {(run: string) => string} */ address) => () => {
    const { parts } = route.peek();
    if (parts[0] === "r" && parts[1]) navigate(address(parts[1]));
  };
  bound.value = [
    {
      title: "Everywhere",
      bindings: [
        { keys: "?", text: "Show or hide this help", act: () => { helpOpen.value = !helpOpen.value; } },
        { keys: "/", text: "Search", act: focusSearch },
        { keys: "g r", text: "Go to all runs", act: () => navigate(to.runs()) },
        { keys: "g o", text: "Go to this run's overview", act: inRun(to.run) },
        { keys: "g e", text: "Go to this run's episodes", act: inRun(to.episodes) },
        { keys: "g t", text: "Go to this run's tasks", act: inRun(to.tasks) },
        { keys: "g j", text: "Go to this run's judge", act: inRun(to.judge) },
        { keys: "g c", text: "Go to the configuration form", act: () => navigate(to.configuration()) },
      ],
    },
  ];
  addEventListener("keydown", press);
}
