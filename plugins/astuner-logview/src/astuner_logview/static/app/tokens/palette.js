// @ts-check
/** The colours that classes of tokens have now, for the canvas: the style sheet is the one place that defines them. */

/**
 * Return the background colour of each class.
 * @param {string[]} names
 * @param {HTMLElement} host an element of the page, to read styles in
 * @returns {Map<string, string>}
 */
export function readPalette(names, host) {
  const probe = document.createElement("div");
  probe.hidden = true;
  const spans = names.map((name) => {
    const span = document.createElement("span");
    span.className = `t ${name}`;
    probe.append(span);
    return span;
  });
  host.append(probe);
  const colours = new Map(names.map((name, at) => [name, getComputedStyle(spans[at]).backgroundColor]));
  probe.remove();
  return colours;
}
