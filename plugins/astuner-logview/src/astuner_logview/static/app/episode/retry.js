// @ts-check
/** Asking again for what the index did not know yet. */
import { useLive } from "../live.js";

/**
 * Ask for an answer again whenever the index has grown, while it is an error: what was not found may be known now.
 * @param {{error: unknown, reload: () => void}} answer
 */
export function useRetry(answer) {
  const again = () => {
    if (answer.error) answer.reload();
  };
  useLive({ index: again, episodes: again }, [answer.error]);
}
