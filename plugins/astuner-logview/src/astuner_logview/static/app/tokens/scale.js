// @ts-check
/** The colour scales of tokens: a value becomes the name of a class, whose colour the style sheet holds. */

/** @typedef {import("../types.js").Measure} Measure */
/**
 * @typedef {object} Scale
 * @property {"low" | "high" | "around"} kind which end is strong: low values, high values, or both sides of `centre`
 * @property {number} centre the value without colour
 * @property {number} low
 * @property {number} high
 * @property {(value: number | null | undefined) => string} classOf
 * @property {{className: string, from: number, to: number}[]} bins from low to high, for the legend
 */

/** Steps of colour on one side of the scale. */
export const STEPS = 5;

/** Measures in which a low value is the remarkable one: what the model found unlikely. */
const LOW_IS_STRONG = new Set(["logprob", "trainer_logprob", "ref_logprob"]);

/**
 * Return the scale of a measure, in the classes `n5`…`n1` (low), `z` and `p1`…`p5` (high); no value is the class `none`.
 * @param {Measure} measure
 * @returns {Scale}
 */
export function makeScale(measure) {
  const centre = measure.name === "ratio" ? 1 : 0;
  const low = measure.low ?? centre;
  const high = measure.high ?? centre;
  if (measure.signed || measure.name === "ratio") return scaleAround(centre, low, high);
  return LOW_IS_STRONG.has(measure.name) ? scaleOneWay("low", low, high) : scaleOneWay("high", low, high);
}

/**
 * @param {number} centre
 * @param {number} low
 * @param {number} high
 * @returns {Scale}
 */
function scaleAround(centre, low, high) {
  // Both sides share one width: equal colours are equal distances.
  const reach = Math.max(Math.abs(low - centre), Math.abs(high - centre)) || 1;
  const width = reach / (STEPS + 0.5);
  /** @param {number} step */
  const nameOf = (step) => (step === 0 ? "z" : step < 0 ? `n${-step}` : `p${step}`);
  const bins = [];
  for (let step = -STEPS; step <= STEPS; step += 1) {
    const middle = centre + step * width;
    bins.push({ className: nameOf(step), from: middle - width / 2, to: middle + width / 2 });
  }
  return {
    kind: "around",
    centre,
    low: centre - reach,
    high: centre + reach,
    bins,
    classOf(value) {
      if (value === null || value === undefined) return "none";
      const step = Math.min(STEPS, Math.round(Math.abs(value - centre) / width));
      return nameOf(value < centre ? -step : step);
    },
  };
}

/**
 * @param {"low" | "high"} kind
 * @param {number} low
 * @param {number} high
 * @returns {Scale}
 */
function scaleOneWay(kind, low, high) {
  const reach = high - low;
  const width = reach / (STEPS + 1) || 1;
  /** @param {number} place */
  const nameOf = (place) => {
    if (kind === "high") return place === 0 ? "z" : `p${place}`;
    return place === STEPS ? "z" : `n${STEPS - place}`;
  };
  const bins = [];
  for (let place = 0; place <= STEPS; place += 1) {
    bins.push({ className: nameOf(place), from: low + place * width, to: low + (place + 1) * width });
  }
  return {
    kind,
    centre: kind === "high" ? low : high,
    low,
    high,
    bins,
    classOf(value) {
      if (value === null || value === undefined) return "none";
      // Without a spread nothing is remarkable.
      if (reach <= 0) return "z";
      return nameOf(Math.max(0, Math.min(STEPS, Math.floor((value - low) / width))));
    },
  };
}
