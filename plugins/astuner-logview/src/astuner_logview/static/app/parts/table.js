// @ts-check
/** A table with sortable headers; on a narrow screen its rows may become cards. */
import { html, classes } from "../html.js";

/**
 * @template Row
 * @typedef {Object} Column
 * @property {string} key
 * @property {string} title
 * @property {(row: Row) => any} cell
 * @property {(row: Row) => number|string|null} [by] what to sort by; the header is then a button
 * @property {boolean} [numeric] right-aligned
 * @property {boolean} [lead] the heading of its row: a card's first line
 * @property {boolean} [hideTitle] the title is only for screen readers
 * @property {string} [hint] the header's tooltip
 * @property {string} [css] a class of its cells
 */

/**
 * @template Row
 * @param {{
 *   caption: string, columns: Column<Row>[], rows: Row[], rowKey: (row: Row) => string,
 *   sort?: string, order?: "asc"|"desc", onSort?: (key: string, order: "asc"|"desc") => void,
 *   cards?: boolean, rowClass?: (row: Row) => string|undefined, css?: string, sorted?: boolean,
 * }} props `sorted`: the rows are in order already (the server sorts)
 */
export function Table({ caption, columns, rows, rowKey, sort, order = "desc", onSort, cards = true, rowClass, css, sorted = false }) {
  const by = sorted ? undefined : columns.find((column) => column.key === sort)?.by;
  const shown = by ? sortRows(rows, by, order) : rows;
  return html`<div class=${classes("table-wrap", cards && "as-cards", css)}>
    <table class="grid">
      <caption class="sr-only">${caption}</caption>
      <thead><tr>${columns.map((column) => html`<${Header} key=${column.key} column=${column} sort=${sort} order=${order} onSort=${onSort} />`)}</tr></thead>
      <tbody>
        ${shown.map((row) => html`<tr key=${rowKey(row)} class=${rowClass?.(row)}>
          ${columns.map((column) => html`<td key=${column.key} class=${classes(column.numeric && "number", column.lead && "lead", column.css)} data-label=${column.hideTitle ? undefined : column.title}>${column.cell(row)}</td>`)}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}

/** @param {{column: Column<any>, sort?: string, order: "asc"|"desc", onSort?: (key: string, order: "asc"|"desc") => void}} props */
export function Header({ column, sort, order, onSort }) {
  const active = sort === column.key;
  const css = classes(column.numeric && "number", column.css);
  if (!column.by || !onSort) return html`<th scope="col" class=${css} title=${column.hint}>${column.hideTitle ? html`<span class="sr-only">${column.title}</span>` : column.title}</th>`;
  const turned = active ? (order === "desc" ? "asc" : "desc") : firstOrder(column);
  return html`<th scope="col" class=${css} aria-sort=${active ? (order === "asc" ? "ascending" : "descending") : undefined}>
    <button type="button" title=${column.hint} onClick=${() => onSort(column.key, turned)}>
      ${column.title}<span class="sort-mark" aria-hidden="true">${active ? (order === "asc" ? "↑" : "↓") : ""}</span>
    </button>
  </th>`;
}

/** Numbers begin with the largest, words with A. @param {Column<any>} column @returns {"asc"|"desc"} */
export function firstOrder(column) {
  return column.numeric ? "desc" : "asc";
}

/**
 * Return the rows in order; rows whose value is not known come last in both directions.
 * @template Row
 * @param {Row[]} rows @param {(row: Row) => number|string|null} by @param {"asc"|"desc"} order
 */
export function sortRows(rows, by, order) {
  const sign = order === "asc" ? 1 : -1;
  return [...rows].sort((left, right) => {
    const [a, b] = [by(left), by(right)];
    if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  });
}
