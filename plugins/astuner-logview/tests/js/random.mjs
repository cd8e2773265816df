/** Return a source of numbers from 0 to 1 that a seed determines. */
export function makeRandom(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state / 0x80000000;
  };
}

export function pick(random, list) {
  return list[Math.floor(random() * list.length)];
}
