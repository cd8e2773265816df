// @ts-check
/** How often each value was given, as bars. */
import { html } from "../html.js";
import { count, number } from "../format.js";

const WIDTH = 260;
const HEIGHT = 74;

/** @param {{title: string, histogram: [number, number, number][]}} props `[low, high, count]` each */
export function Histogram({ title, histogram }) {
  const most = Math.max(...histogram.map(([, , size]) => size), 1);
  const total = histogram.reduce((sum, [, , size]) => sum + size, 0);
  if (!total) return html`<p class="muted small">No values.</p>`;
  const step = WIDTH / histogram.length;
  const described = histogram.filter(([, , size]) => size > 0).map(([low, high, size]) => `${number(low, 3)} to ${number(high, 3)}: ${count(size)}`).join("; ");
  const isDiscrete = histogram.length <= 6 && histogram.every(([low, high]) => low === high);
  const [first, last] = [histogram[0], histogram[histogram.length - 1]];
  return html`<figure class="histogram">
    <svg role="img" aria-label=${`Histogram of ${title}. ${described}`} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
      ${histogram.map(([low, high, size], at) => {
        // A rare value is still a visible line.
        const height = size ? Math.max(2, (HEIGHT * size) / most) : 0;
        return html`<rect key=${at} x=${at * step + 0.75} y=${HEIGHT - height} width=${Math.max(0.5, step - 1.5)} height=${height}><title>${`${number(low, 3)} to ${number(high, 3)}: ${count(size)} (${Math.round((100 * size) / total)} %)`}</title></rect>`;
      })}
    </svg>
    ${isDiscrete
      ? html`<figcaption class="muted small each">${histogram.map(([low, , size]) => html`<span key=${low}>${number(low, 3)}<br /><span class="faint">${count(size)}</span></span>`)}</figcaption>`
      : html`<figcaption class="muted small"><span>${number(first[0], 3)}</span><span>${number(last[1], 3)}</span></figcaption>`}
  </figure>`;
}
