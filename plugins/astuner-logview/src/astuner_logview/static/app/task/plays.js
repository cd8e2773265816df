// @ts-check
/** The plays of a task over the steps, and which two of them are compared. */

/** @typedef {import("../types.js").Task} Task */
/** @typedef {import("../types.js").Play} Play */
/** @typedef {Play["episodes"][number]} Answer */

/**
 * Return an episode of a play that stands for it: the one asked for, else the best with an answer, or the worst.
 * @param {Play} play
 * @param {number|null} repeat
 * @param {1|-1} [sign] -1 for the worst
 * @returns {Answer|undefined}
 */
export function chooseAnswer(play, repeat, sign = 1) {
  const asked = repeat === null ? undefined : play.episodes.find((episode) => episode.repeat === repeat);
  if (asked) return asked;
  const told = play.episodes.filter((episode) => episode.answer);
  return (told.length ? told : play.episodes).reduce(
    (/** @type {Answer|undefined} */ best, episode) => (best === undefined || sign * (episode.reward ?? -Infinity) > sign * (best.reward ?? -Infinity) ? episode : best),
    undefined,
  );
}

/** @param {Play} play */
export function playKey(play) {
  return `${play.split}/${play.step}`;
}

/**
 * Return the two plays to compare: those of the address, else the first and the last.
 * @param {Play[]} plays in order of their steps
 * @param {string} before
 * @param {string} after
 * @returns {[Play|undefined, Play|undefined]}
 */
export function choosePair(plays, before, after) {
  const find = (/** @type {string} */ key) => plays.find((play) => playKey(play) === key);
  return [find(before) ?? plays[0], find(after) ?? plays[plays.length - 1]];
}

/**
 * Return the reward curve of each split.
 * @param {Play[]} plays
 */
export function drawCurves(plays) {
  const splits = [...new Set(plays.map((play) => play.split))];
  return splits.map((split, at) => ({
    label: split,
    series: at + 1,
    points: /** @type {[number, number|null][]} */ (plays.filter((play) => play.split === split).map((play) => [play.step, play.reward_mean])),
  }));
}
