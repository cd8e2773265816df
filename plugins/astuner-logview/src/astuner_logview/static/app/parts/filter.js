// @ts-check
/** The search box: a filter with completion of keys and values, whose text is in the address. */
import { html, useEffect, useRef, useState } from "../html.js";
import { count } from "../format.js";
import { api, get } from "../source.js";
import { Symbol } from "./bar.js";

/** @typedef {import("../types.js").Filter} Filter */
/** @typedef {import("../types.js").FilterKey} FilterKey */
/** @typedef {import("../types.js").ApiError} ApiError */
/** @typedef {{insert: string, meaning: string, note: string}} Completion */

const PAUSE_MS = 250;
/** A key whose value is still to come; Enter sends it as it is. */
const UNFINISHED = /(^|\s)-?\w+[:<>=]+$/;

/**
 * @param {{value: string, onChange: (text: string) => void, run?: string, label: string, placeholder?: string, error?: ApiError|null, complete?: boolean}} props
 *   `run` completes values that occur in it; `error` is the server's about this text, with its place; `complete` false is a plain search
 */
export function FilterBox({ value, onChange, run, label, placeholder = "", error, complete = true }) {
  const input = useRef(/** @type {HTMLInputElement|null} */ (null));
  const [text, setText] = useState(value);
  const [offers, setOffers] = useState(/** @type {Completion[]} */ ([]));
  const [chosen, setChosen] = useState(-1);
  const [open, setOpen] = useState(false);
  const sent = useRef(value);
  useEffect(() => {
    // The address changed by something else than this box.
    if (value !== sent.current) setText(value);
    sent.current = value;
  }, [value]);
  useEffect(() => {
    if (text === sent.current || (complete && UNFINISHED.test(text))) return undefined;
    const timer = setTimeout(() => send(text), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  useEffect(() => {
    if (!open || !complete) return undefined;
    let over = false;
    findCompletions(text, input.current?.selectionStart ?? text.length, run).then(
      (found) => over || (setOffers(found), setChosen(-1)),
      () => over || setOffers([]),
    );
    return () => { over = true; };
  }, [text, open, run]);

  /** @param {string} wanted */
  const send = (wanted) => {
    sent.current = wanted;
    onChange(wanted.trim());
  };
  /** @param {Completion} offer */
  const take = (offer) => {
    const element = input.current;
    const [start, end] = wordAt(text, element?.selectionStart ?? text.length);
    const space = /[:<>=]$/.test(offer.insert) ? "" : " ";
    const next = `${text.slice(0, start)}${offer.insert}${space}${text.slice(end).replace(/^ /, "")}`;
    setText(next);
    requestAnimationFrame(() => {
      const place = start + offer.insert.length + space.length;
      element?.focus();
      element?.setSelectionRange(place, place);
    });
  };
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) return setOpen(true);
      // Among the offers and, between the last and the first, the text itself (-1).
      const places = offers.length + 1;
      return setChosen((chosen + 1 + (event.key === "ArrowDown" ? 1 : places - 1)) % places - 1);
    }
    if (event.key === "Enter" || (event.key === "Tab" && open && chosen >= 0)) {
      const offer = open ? offers[chosen] : undefined;
      if (offer) {
        event.preventDefault();
        return take(offer);
      }
      send(text);
      return setOpen(false);
    }
    if (event.key === "Escape") {
      event.preventDefault();
      if (open && offers.length) return setOpen(false);
      input.current?.blur();
    }
    return undefined;
  };
  const shown = open && complete && offers.length > 0;
  return html`<div class="stack grow">
    <div class="filter" role="search">
      <${Symbol} name="search" css="glass" />
      <input ref=${input} type="search" data-search role=${complete ? "combobox" : undefined} aria-label=${label} aria-expanded=${complete ? shown : undefined}
        aria-controls=${shown ? "completions" : undefined} aria-autocomplete=${complete ? "list" : undefined} aria-activedescendant=${shown && chosen >= 0 ? `completion-${chosen}` : undefined}
        aria-invalid=${error?.at !== undefined ? "true" : undefined} aria-describedby=${error ? "filter-error" : undefined}
        placeholder=${placeholder} value=${text} autocomplete="off" autocapitalize="off" spellcheck=${false}
        onInput=${(/** @type {Event} */ event) => { setText(/** @type {HTMLInputElement} */ (event.target).value); setOpen(true); }}
        onClick=${() => setOpen(true)} onBlur=${() => setTimeout(() => setOpen(false), 120)} onKeyDown=${press} />
      ${text && html`<button type="button" class="clear" aria-label="Clear the search" onClick=${() => { setText(""); send(""); input.current?.focus(); }}>×</button>`}
      ${shown && html`<ul class="completions" id="completions" role="listbox" aria-label="Completions">
        ${offers.map((offer, at) => html`<li key=${offer.insert} id=${`completion-${at}`} role="option" aria-selected=${at === chosen}
          onMouseDown=${(/** @type {Event} */ event) => { event.preventDefault(); take(offer); }}>
          <code>${offer.insert}</code><span class="meaning">${offer.meaning}</span><span class="faint small">${offer.note}</span></li>`)}
      </ul>`}
    </div>
    ${error && html`<div class="notice bad" role="alert" id="filter-error">
      <strong>${error.error}</strong>${error.at !== undefined && html`<code class="small">${text.slice(0, error.at)}<mark>${text.slice(error.at) || "…"}</mark></code>`}<p>${error.remedy}</p></div>`}
  </div>`;
}

/** The word that holds a place: its start and end; quotes hold blanks. @param {string} text @param {number} place @returns {[number, number]} */
export function wordAt(text, place) {
  for (const match of text.matchAll(/(?:"[^"]*"?|[^\s"])+/g)) {
    if (match.index <= place && place <= match.index + match[0].length) return [match.index, match.index + match[0].length];
  }
  return [place, place];
}

/** @param {string} text @param {number} place @param {string|undefined} run @returns {Promise<Completion[]>} */
async function findCompletions(text, place, run) {
  const [start, end] = wordAt(text, place);
  const word = text.slice(start, end);
  const minus = word.startsWith("-") ? "-" : "";
  const begun = word.slice(minus.length);
  const { keys } = /** @type {Filter} */ (await get(api(["filter"], { text: "" })));
  const value = /^(\w+):(.*)$/.exec(begun);
  if (value && run) return offerValues(value[1] ?? "", value[2] ?? "", minus, run, keys);
  return keys
    .filter((key) => key.key.startsWith(begun.toLowerCase()) && key.key !== begun)
    .map((key) => ({ insert: `${minus}${key.key}${key.kind === "flag" ? "" : key.kind === "number" && !key.examples[0]?.includes(":") ? /[<>=]+/.exec(key.examples[0] ?? "")?.[0] ?? ":" : ":"}`, meaning: key.meaning, note: key.examples.slice(0, 2).join("  ") }));
}

/** @param {string} key @param {string} begun @param {string} minus @param {string} run @param {FilterKey[]} keys @returns {Promise<Completion[]>} */
async function offerValues(key, begun, minus, run, keys) {
  const known = keys.find((item) => item.key === key);
  if (!known) return [];
  const { values } = /** @type {import("../types.js").Values} */ (await get(api(["runs", run, "values"], { key })));
  const plain = begun.replaceAll('"', "").toLowerCase();
  return values
    .filter(([value]) => String(value).toLowerCase().includes(plain) && String(value) !== begun)
    .slice(0, 12)
    .map(([value, times]) => ({ insert: `${minus}${key}:${quote(String(value))}`, meaning: "", note: count(times) }));
}

/** Write a value for a filter: quoted if it has blanks; for a quote in it, which cannot be written, any text may stand. @param {string} value */
export function quote(value) {
  return /[\s"]/.test(value) ? `"${value.replaceAll('"', "*")}"` : value;
}

/** Add a term to a filter, or take it away if it is there. @param {string} filter @param {string} term */
export function toggleTerm(filter, term) {
  const words = filter.match(/(?:"[^"]*"?|[^\s"])+/g) ?? [];
  return (/** @type {string[]} */ (words).includes(term) ? words.filter((word) => word !== term) : [...words, term]).join(" ");
}
