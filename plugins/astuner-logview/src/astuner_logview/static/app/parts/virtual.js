// @ts-check
/** A list that draws only the rows in view. All rows have one height. */
import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";

const SPARE = 8;

/**
 * @param {{
 *   count: number, rowHeight: number, height?: string, label: string, current?: number, head?: any,
 *   row: (index: number) => any, onRange?: (first: number, last: number) => void,
 * }} props `current` is scrolled into view when it changes; `row` returns an element of that height;
 *   `onRange` learns which rows are in view
 */
export function VirtualRows({ count, rowHeight, height = "70vh", label, current, head, row, onRange }) {
  const box = useRef(/** @type {HTMLDivElement|null} */ (null));
  const top = useRef(/** @type {HTMLDivElement|null} */ (null));
  const [view, setView] = useState({ first: 0, last: 40 });
  const measure = () => {
    const element = box.current;
    if (!element) return;
    const first = Math.max(Math.floor(element.scrollTop / rowHeight) - SPARE, 0);
    const last = Math.min(Math.ceil((element.scrollTop + element.clientHeight) / rowHeight) + SPARE, count);
    setView((old) => (old.first === first && old.last === last ? old : { first, last }));
  };
  useLayoutEffect(measure, [count, rowHeight]);
  useEffect(() => {
    const watch = new ResizeObserver(measure);
    if (box.current) watch.observe(box.current);
    return () => watch.disconnect();
  }, [count, rowHeight]);
  useEffect(() => onRange?.(view.first, view.last), [view, count]);
  useEffect(() => {
    const element = box.current;
    if (!element || current === undefined || current < 0) return;
    const headHeight = top.current?.offsetHeight ?? 0;
    const start = current * rowHeight;
    if (start < element.scrollTop) element.scrollTop = start;
    else if (start + rowHeight + headHeight > element.scrollTop + element.clientHeight) element.scrollTop = start + rowHeight + headHeight - element.clientHeight;
  }, [current]);
  const rows = [];
  for (let index = view.first; index < Math.min(view.last, count); index += 1) rows.push(row(index));
  return html`<div class="virtual" ref=${box} style=${{ maxHeight: height }} onScroll=${measure} role="table" aria-label=${label} aria-rowcount=${count + 1} tabindex="0">
    ${head && html`<div class="virtual-head" ref=${top} role="rowgroup">${head}</div>`}
    <div class="virtual-space" role="rowgroup" style=${{ height: `${count * rowHeight}px` }}>
      <div style=${{ transform: `translateY(${view.first * rowHeight}px)` }} role="presentation">${rows}</div>
    </div>
  </div>`;
}
