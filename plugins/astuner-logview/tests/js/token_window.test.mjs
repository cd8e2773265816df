import assert from "node:assert/strict";
import { test } from "node:test";
import { BLOCK_TOKENS, cutChunk, findSegment } from "../../src/astuner_logview/static/app/tokens/blocks.js";
import { Chunks } from "../../src/astuner_logview/static/app/tokens/chunks.js";
import { Heights } from "../../src/astuner_logview/static/app/tokens/heights.js";
import { columnsAt, pickStrongest, tokenAt } from "../../src/astuner_logview/static/app/tokens/minimap_columns.js";
import { makeScale } from "../../src/astuner_logview/static/app/tokens/scale.js";
import { StreamLayout } from "../../src/astuner_logview/static/app/tokens/stream_layout.js";
import { chooseWindow, findBlock, WINDOW_TOKENS } from "../../src/astuner_logview/static/app/tokens/window.js";
import { makeRandom } from "./random.mjs";

const CHUNK = 2048;

function makeSegments(random, tokens) {
  const segments = [];
  for (let start = 0; start < tokens; ) {
    const end = Math.min(tokens, start + 1 + Math.floor(random() * 900));
    segments.push({ start, end, call: segments.length, kind: "output" });
    start = end;
  }
  return segments;
}

function makeChunk(random, index, tokens) {
  const size = Math.min(CHUNK, tokens - index * CHUNK);
  return { start: index * CHUNK, texts: Array.from({ length: size }, () => (random() < 0.05 ? "\n" : "a")) };
}

test("blocks cover every token once, in order, and never cross a segment or a chunk", () => {
  const random = makeRandom(2);
  for (let round = 0; round < 60; round += 1) {
    const tokens = 1 + Math.floor(random() * 9000);
    const segments = makeSegments(random, tokens);
    let at = 0;
    for (let index = 0; index * CHUNK < tokens; index += 1) {
      for (const block of cutChunk(segments, index, CHUNK, tokens, random() < 0.5 ? makeChunk(random, index, tokens) : undefined)) {
        const segment = segments[block.segment];
        assert.equal(block.start, at);
        assert.ok(block.end > block.start && block.end - block.start <= BLOCK_TOKENS);
        assert.ok(segment.start <= block.start && block.end <= segment.end);
        assert.equal(Math.floor(block.start / CHUNK), Math.floor((block.end - 1) / CHUNK));
        assert.equal(block.isHead, block.start === segment.start);
        at = block.end;
      }
    }
    assert.equal(at, tokens);
  }
});

test("a long segment is cut at the end of a line where one is near, else between words", () => {
  const texts = Array.from({ length: 600 }, (_, at) => (at === 200 ? ".\n" : at % 10 ? "a" : " b"));
  const blocks = cutChunk([{ start: 0, end: 600 }], 0, CHUNK, 600, { start: 0, texts });
  assert.deepEqual(blocks.map((block) => block.end), [201, 600]);
  const words = cutChunk([{ start: 0, end: 1200 }], 0, CHUNK, 1200, { start: 0, texts: texts.concat(texts).map((text) => text.replace("\n", "")) });
  assert.deepEqual(words.map((block) => block.end), [510, 1020, 1200]);
});

test("the sums of heights are those of a plain list, before and after changes", () => {
  const random = makeRandom(3);
  const list = Array.from({ length: 137 }, () => Math.floor(random() * 40));
  const heights = new Heights(list);
  for (let round = 0; round < 300; round += 1) {
    const index = Math.floor(random() * list.length);
    list[index] = Math.floor(random() * 40);
    heights.set(index, list[index]);
    const place = Math.floor(random() * (list.length + 1));
    assert.equal(heights.top(place), list.slice(0, place).reduce((sum, height) => sum + height, 0));
    const y = random() * heights.total;
    const found = heights.find(y);
    assert.ok(heights.top(found) <= y && y < heights.top(found + 1), `${y} is in ${found}`);
  }
  assert.equal(heights.find(-5), heights.find(0));
  assert.equal(heights.find(1e9), list.length - 1);
});

test("a window holds what is in view and stays within its budget", () => {
  const random = makeRandom(4);
  for (let round = 0; round < 200; round += 1) {
    const blocks = Array.from({ length: 300 }, (_, at) => ({ start: at * 200, end: at * 200 + 200 }));
    const heights = new Heights(blocks.map(() => 20 + Math.floor(random() * 200)));
    const top = random() * (heights.total - 800);
    const [first, last] = chooseWindow(blocks, heights, top, 800);
    assert.ok(heights.top(first) <= top && top + 800 <= heights.top(last));
    const view = (heights.find(top + 800) - heights.find(top) + 1) * 200;
    assert.ok((last - first) * 200 <= Math.max(WINDOW_TOKENS, view));
  }
  assert.deepEqual(chooseWindow([], new Heights([]), 0, 800), [0, 0]);
});

test("a token is found in its segment and in its block", () => {
  const random = makeRandom(5);
  const segments = makeSegments(random, 5000);
  for (let round = 0; round < 300; round += 1) {
    const token = Math.floor(random() * 5000);
    const segment = segments[findSegment(segments, token)];
    assert.ok(segment.start <= token && token < segment.end);
    const block = segments[findBlock(segments, token)];
    assert.equal(block, segment);
  }
});

test("a chunk that arrives leaves every other block where it was", async () => {
  const random = makeRandom(6);
  const tokens = 20_000;
  const segments = makeSegments(random, tokens);
  const chunks = new Chunks(async (index) => makeChunk(random, index, tokens));
  const layout = new StreamLayout({ tokens, chunk: CHUNK, segments }, chunks, 800);
  for (const index of [4, 0, 9]) {
    await chunks.load(index);
    assert.ok(layout.isStale(index));
    const others = layout.blocks.filter((block) => block.chunk !== index);
    layout.recut(index);
    assert.ok(!layout.isStale(index));
    assert.deepEqual(layout.blocks.filter((block) => block.chunk !== index), others);
    assert.equal(layout.blocks.length, layout.heights.length);
  }
  assert.equal(layout.tokenAt(layout.placeOf(12_345)), 12_345);
});

test("a chunk is asked for once, and again after a failure", async () => {
  let asked = 0;
  const chunks = new Chunks(async () => {
    asked += 1;
    if (asked === 1) throw new Error("gone");
    return { start: 0 };
  });
  await assert.rejects(chunks.load(0));
  await Promise.all([chunks.load(0), chunks.load(0)]);
  assert.equal(asked, 2);
  assert.deepEqual(chunks.peek(0), { start: 0 });
});

test("old chunks are forgotten, but for those in the page", async () => {
  const chunks = new Chunks(async (index) => ({ start: index }));
  for (let index = 0; index < 70; index += 1) await chunks.load(index);
  const gone = chunks.forgetOld(new Set([0, 1]));
  assert.deepEqual(gone, [2, 3, 4, 5, 6, 7]);
  assert.ok(chunks.peek(0) && !chunks.peek(2));
});

test("equal distances from the centre have equal colours, on both sides", () => {
  const scale = makeScale({ name: "mismatch", signed: true, low: -0.5, high: 1.1 });
  assert.equal(scale.classOf(0), "z");
  assert.equal(scale.classOf(1.1), "p5");
  assert.equal(scale.classOf(50), "p5");
  assert.equal(scale.classOf(-1.1), "n5");
  for (const value of [0.2, 0.4, 0.9]) assert.equal(scale.classOf(value).slice(1), scale.classOf(-value).slice(1));
  assert.equal(scale.classOf(null), "none");
  assert.equal(makeScale({ name: "ratio", signed: false, low: 0.8, high: 1.2 }).classOf(1), "z");
});

test("an unlikely token is coloured, and so is one of high entropy", () => {
  const logprob = makeScale({ name: "logprob", signed: false, low: -6, high: 0 });
  assert.deepEqual([-9, -6, -0.1, 0].map(logprob.classOf), ["n5", "n5", "z", "z"]);
  const entropy = makeScale({ name: "entropy", signed: false, low: 0, high: 3 });
  assert.deepEqual([0, 3, 7].map(entropy.classOf), ["z", "p5", "p5"]);
  assert.equal(makeScale({ name: "advantage", signed: false, low: 2, high: 2 }).classOf(2), "z");
});

test("a strip of any width shows every column", () => {
  const random = makeRandom(7);
  for (let round = 0; round < 100; round += 1) {
    const [pixels, columns] = [1 + Math.floor(random() * 1500), 1 + Math.floor(random() * 1500)];
    const seen = new Set();
    for (let pixel = 0; pixel < pixels; pixel += 1) {
      const [from, to] = columnsAt(pixel, pixels, columns);
      assert.ok(0 <= from && from < to && to <= columns);
      for (let column = from; column < to; column += 1) seen.add(column);
    }
    assert.equal(seen.size, columns);
  }
  assert.equal(pickStrongest([0.1, -3, null, 2], 0, 4, 0), -3);
  assert.equal(pickStrongest([null, null], 0, 2, 0), null);
  assert.equal(tokenAt(1, 50), 49);
  assert.equal(tokenAt(-0.1, 50), 0);
});
