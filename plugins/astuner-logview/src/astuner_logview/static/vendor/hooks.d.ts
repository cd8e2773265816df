/** What our modules use of Preact's hooks. */
type Inputs = readonly unknown[];
type Cleanup = void | (() => void);
export function useState<S>(initial: S | (() => S)): [S, (next: S | ((old: S) => S)) => void];
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(make: () => T, inputs: Inputs): T;
export function useCallback<T extends (...given: any[]) => unknown>(callback: T, inputs: Inputs): T;
export function useEffect(effect: () => Cleanup, inputs?: Inputs): void;
export function useLayoutEffect(effect: () => Cleanup, inputs?: Inputs): void;
