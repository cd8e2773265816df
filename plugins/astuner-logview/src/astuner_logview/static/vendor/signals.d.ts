import type { ReadonlySignal, Signal } from "./signals-core.js";
export { batch, computed, effect, signal } from "./signals-core.js";
export type { ReadonlySignal, Signal } from "./signals-core.js";
export function useSignal<T>(value: T): Signal<T>;
export function useComputed<T>(compute: () => T): ReadonlySignal<T>;
