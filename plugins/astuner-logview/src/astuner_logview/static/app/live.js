// @ts-check
/** A running run: one connection for its events, which pages share, and following the newest failure. */
import { signal, useEffect } from "./html.js";
import { navigate, to } from "./route.js";
import { api, forget, listen } from "./source.js";

/** @typedef {import("./types.js").RunRow} RunRow */
/** @typedef {import("./types.js").StepEvent} StepEvent */
/** @typedef {import("./types.js").EpisodesEvent} EpisodesEvent */
/** @typedef {{run?: (row: RunRow) => void, step?: (event: StepEvent) => void, episodes?: (event: EpisodesEvent) => void, index?: (event: {indexed: number}) => void}} Listeners */

/** @type {import("../vendor/signals.js").Signal<"off"|"on"|"lost">} */
export const connection = signal("off");
/** The run of the page, as its last event or answer describes it. @type {import("../vendor/signals.js").Signal<RunRow|null>} */
export const currentRun = signal(null);
/** Whether the page goes to each new failure. */
export const following = signal(false);
/** What a screen reader hears of updates. */
export const announcement = signal("");

/** @type {Set<Listeners>} */
const listeners = new Set();

/** Hear of a run's changes while a component is mounted; answers that are older are forgotten first. @param {Listeners} wanted @param {unknown[]} inputs */
export function useLive(wanted, inputs) {
  useEffect(() => {
    listeners.add(wanted);
    return () => {
      listeners.delete(wanted);
    };
  }, inputs);
}

/** Keep the connection for a run ("" for all runs) while the shell shows it. @param {string} run */
export function useConnection(run) {
  useEffect(() => {
    following.value = false;
    // What is heard first of a run that has ended was so before: no answer has become old.
    const unheard = new Set(run ? ["index", "run"] : []);
    /** @type {(name: keyof Listeners) => (data: any) => void} */
    const hand = (name) => (data) => {
      if (!unheard.delete(name) || data.status === "running") forget("api/runs");
      for (const listener of [...listeners]) listener[name]?.(data);
    };
    const stop = listen(run || null, {
      run: (row) => {
        if (row.id === run) currentRun.value = { ...currentRun.peek(), ...row };
        hand("run")(row);
      },
      step: (event) => {
        if (run) announcement.value = `Step ${event.step} of ${event.split} has finished.`;
        hand("step")(event);
      },
      episodes: (event) => {
        hand("episodes")(event);
        const newest = event.failed[0];
        if (newest && run && following.peek()) navigate(to.episode(run, newest.id));
      },
      index: hand("index"),
    }, (connected) => {
      connection.value = connected ? "on" : "lost";
    });
    return () => {
      connection.value = "off";
      stop();
      // Nobody says any more when they become old.
      if (run) forget(api(["runs", run]));
    };
  }, [run]);
}
