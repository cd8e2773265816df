// @ts-check
/** Asks for all modules of a page at the same time, not for each when the one that imports it has been read. */

/** The modules of each page, as the server lists them; an exported file has none to ask for. @type {Record<string, string[]>} */
const MODULES = JSON.parse(document.getElementById("page-modules")?.textContent ?? "{}");

/** Ask for the modules of a page, once. @param {string} page */
export function preload(page) {
  for (const path of MODULES[page] ?? []) {
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = new URL(`../${path}`, import.meta.url).href;
    document.head.append(link);
  }
  delete MODULES[page];
}
