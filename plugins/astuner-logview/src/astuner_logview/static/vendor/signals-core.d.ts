/** What our modules use of the signals. */
export interface ReadonlySignal<T> {
  readonly value: T;
  peek(): T;
  subscribe(listener: (value: T) => void): () => void;
}
export interface Signal<T> extends ReadonlySignal<T> {
  value: T;
}
export function signal<T>(value: T): Signal<T>;
export function computed<T>(compute: () => T): ReadonlySignal<T>;
export function effect(run: () => void | (() => void)): () => void;
export function batch<T>(change: () => T): T;
