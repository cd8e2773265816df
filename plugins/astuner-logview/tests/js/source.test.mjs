import assert from "node:assert/strict";
import { test } from "node:test";
import { forget, get } from "../../src/astuner_logview/static/app/source.js";

/** Answers of a server that come when the test says so. */
function holdAnswers() {
  const waiting = [];
  globalThis.fetch = (address, { signal }) =>
    new Promise((resolve, reject) => {
      signal?.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      waiting.push({ answer: (data) => resolve({ ok: true, json: async () => data }), signal });
    });
  return waiting;
}

test("two that want the same answer share a request, and it is kept", async () => {
  const waiting = holdAnswers();
  const both = Promise.all([get("api/shared"), get("api/shared")]);
  assert.equal(waiting.length, 1);
  waiting[0].answer({ step: 1 });
  assert.deepEqual(await both, [{ step: 1 }, { step: 1 }]);
  assert.deepEqual(await get("api/shared"), { step: 1 });
});

test("a request goes on while one of two still wants it", async () => {
  const waiting = holdAnswers();
  const stop = new AbortController();
  const [left, stays] = [get("api/left", { signal: stop.signal }), get("api/left", { signal: new AbortController().signal })];
  stop.abort();
  assert.equal(waiting[0].signal.aborted, false);
  waiting[0].answer({ step: 1 });
  assert.deepEqual(await stays, { step: 1 });
  await left;
});

test("a request that all have given up is aborted, and the next one begins again", async () => {
  const waiting = holdAnswers();
  const stop = new AbortController();
  const given = get("api/given-up", { signal: stop.signal });
  stop.abort();
  await assert.rejects(given, { name: "AbortError" });
  const again = get("api/given-up");
  waiting[1].answer({ step: 2 });
  assert.deepEqual(await again, { step: 2 });
});

test("an answer that was under way when the run grew is not shown for what came after", async () => {
  const waiting = holdAnswers();
  const old = get("api/runs/grown");
  forget("api/runs");
  const now = get("api/runs/grown");
  assert.equal(waiting.length, 2);
  waiting[1].answer({ step: 2 });
  assert.deepEqual(await now, { step: 2 });
  waiting[0].answer({ step: 1 });
  assert.deepEqual(await old, { step: 1 });
  assert.deepEqual(await get("api/runs/grown"), { step: 2 });
});
