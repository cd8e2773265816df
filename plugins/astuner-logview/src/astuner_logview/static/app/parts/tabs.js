// @ts-check
/** Tabs: links between pages of a run, or a tab list inside a page. */
import { html, useEffect, useRef } from "../html.js";

/** @param {{label: string, tabs: {href: string, title: string, current: boolean, count?: string|null}[], css?: string}} props */
export function LinkTabs({ label, tabs, css = "" }) {
  const nav = useRef(/** @type {HTMLElement|null} */ (null));
  const current = tabs.find((tab) => tab.current)?.href;
  useEffect(() => {
    // On a narrow screen the current tab may be outside.
    const element = nav.current?.querySelector("[aria-current]");
    if (nav.current && element instanceof HTMLElement) nav.current.scrollLeft = element.offsetLeft - (nav.current.clientWidth - element.offsetWidth) / 2;
  }, [current]);
  return html`<nav class=${`tabs ${css}`} aria-label=${label} ref=${nav}>
    ${tabs.map((tab) => html`<a key=${tab.href} href=${tab.href} aria-current=${tab.current ? "page" : undefined}>
      ${tab.title}${tab.count ? html`<span class="count">${tab.count}</span>` : null}
    </a>`)}
  </nav>`;
}

/**
 * A list of tabs with arrow keys; the panel is the caller's: `<div role="tabpanel" aria-labelledby=${`tab-${value}`}>`.
 * @param {{label: string, tabs: {value: string, title: string}[], value: string, onChange: (value: string) => void}} props
 */
export function Tabs({ label, tabs, value, onChange }) {
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.value === value);
    const next = tabs[(at + by + tabs.length) % tabs.length];
    if (!next) return;
    onChange(next.value);
    document.getElementById(`tab-${next.value}`)?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} onKeyDown=${move}>
    ${tabs.map((tab) => html`<button key=${tab.value} type="button" role="tab" id=${`tab-${tab.value}`} aria-selected=${tab.value === value}
      tabindex=${tab.value === value ? 0 : -1} onClick=${() => onChange(tab.value)}>${tab.title}</button>`)}
  </div>`;
}
