// @ts-check
/** Light or dark: the system's choice until the reader makes one, which this browser keeps. */
import { effect, signal } from "./html.js";

const KEY = "astuner-theme";
/** @returns {"system"|"light"|"dark"} */
function stored() {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // A page from disk may have no storage.
  }
}

/** @type {import("../vendor/signals.js").Signal<"system"|"light"|"dark">} */
export const choice = signal(stored());
const system = matchMedia("(prefers-color-scheme: dark)");
const systemDark = signal(system.matches);
/** Counts up whenever the colours change: what draws on a canvas reads it and draws again. */
export const colours = signal(0);

system.addEventListener("change", () => {
  systemDark.value = system.matches;
});

/** Whether the page is dark now. */
export function isDark() {
  return choice.value === "system" ? systemDark.value : choice.value === "dark";
}

/** Change between light and dark, and keep the choice. */
export function toggleTheme() {
  choice.value = isDark() ? "light" : "dark";
  try {
    localStorage.setItem(KEY, choice.value);
  } catch {
    // The choice holds until the page is closed.
  }
}

/** The value of a custom property now, for a canvas, which does not know light-dark(). @param {string} name */
export function colour(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const pair = /^light-dark\((.+),\s*(#.+|rgb.+)\)$/.exec(text);
  return (pair ? pair[isDark() ? 2 : 1] : text) ?? text;
}

effect(() => {
  document.documentElement.dataset.theme = isDark() ? "dark" : "light";
  colours.value = colours.peek() + 1;
});
