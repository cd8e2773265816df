import assert from "node:assert/strict";
import { test } from "node:test";
import { choosePath, choosePathOf, layOutCalls } from "../../src/astuner_logview/static/app/episode/call_tree.js";
import { orderCalls } from "../../src/astuner_logview/static/app/episode/lane_order.js";
import { isFolded, replyText } from "../../src/astuner_logview/static/app/episode/turn_facts.js";
import { alignSiblings, findExtremes } from "../../src/astuner_logview/static/app/group/alignment.js";
import { chooseAnswer, choosePair } from "../../src/astuner_logview/static/app/task/plays.js";
import { makeRandom } from "./random.mjs";

const message = (role, content) => ({ role, content, tool_calls: [] });
const turn = (asked, said) => ({ call: 0, agent: "agent", messages: [message("user", asked)], reply: message("assistant", said) });
const sibling = (...turns) => ({ id: `train/1/t/${turns.length}`, turns_shown: turns });

test("turns that all siblings share are shown once, and the rest from where they part", () => {
  const found = alignSiblings([
    sibling(turn("q", "first"), turn("tool", "The answer is 4."), turn("more", "end")),
    sibling(turn("q", "first"), turn("tool", "The answer is 5.")),
  ]);
  assert.equal(found.shared.length, 1);
  assert.equal(found.rows, 2);
  assert.deepEqual(found.asked?.messages, [message("user", "tool")]);
  assert.equal(found.of, "train/1/t/3");
});

test("texts that differ only behind a cut are not the same", () => {
  const cut = (/** @type {string} */ digest) => ({ content: 5, reasoning: 0, arguments: [], digest });
  const said = (/** @type {string} */ digest) => ({ ...turn("q", "start"), reply: { ...message("assistant", "start"), cut: cut(digest) } });
  const found = alignSiblings([sibling(said("a"), turn("x", "b")), sibling(said("b"), turn("x", "b"))]);
  assert.equal(found.shared.length, 0);
  assert.deepEqual(found.sameAs, [null, null]);
  assert.equal(alignSiblings([sibling(said("a"), turn("x", "b")), sibling(said("a"), turn("x", "c"))]).shared.length, 1);

  const asked = (/** @type {string} */ digest) => ({ ...turn("q", "start"), messages: [{ ...message("user", "start"), cut: cut(digest) }] });
  assert.equal(alignSiblings([sibling(asked("a")), sibling(asked("b"))]).asked, null);
});

test("siblings that say the same keep their last turn, and are named", () => {
  const found = alignSiblings([sibling(turn("q", "a")), sibling(turn("q", "a")), sibling(turn("q", "b")), sibling(turn("q", "b"))]);
  assert.equal(found.rows, 1);
  assert.deepEqual(found.sameAs, [null, 0, null, 2]);
  assert.equal(alignSiblings([sibling(turn("q", "a")), sibling(turn("q", "a"))]).rows, 1);
});

test("a sibling that failed before its first turn changes nothing for the others", () => {
  const found = alignSiblings([sibling(), sibling(turn("q", "a"), turn("x", "b")), sibling(turn("q", "a"), turn("x", "c"))]);
  assert.equal(found.shared.length, 1);
  assert.equal(found.asked?.messages[0].content, "x");
  assert.deepEqual(alignSiblings([]).shared, []);
  assert.equal(alignSiblings([sibling(turn("q", "a"))]).rows, 1);
});

test("best and worst are marked only where they set a sibling apart", () => {
  const mark = (...rewards) => {
    const { best, worst } = findExtremes(rewards.map((reward) => ({ reward })));
    return [[...best], [...worst]];
  };
  assert.deepEqual(mark(1, 0, 0.5, null), [[0], [1]]);
  assert.deepEqual(mark(1, 1, 1), [[], []]);
  assert.deepEqual(mark(1, 0, 0, 0), [[0], []]);
  assert.deepEqual(mark(null, null), [[], []]);
});

test("calls of a tree stand right of their parents, and no two in one place", () => {
  const random = makeRandom(8);
  for (let round = 0; round < 200; round += 1) {
    const calls = Array.from({ length: 1 + Math.floor(random() * 40) }, (_, index) => ({ index, parent: index === 0 || random() < 0.2 ? null : Math.floor(random() * index) }));
    const { nodes, edges, rows, depth } = layOutCalls(calls);
    assert.equal(nodes.length, calls.length);
    assert.equal(new Set(nodes.map((node) => `${node.row} ${node.depth}`)).size, nodes.length);
    for (const { from, to } of edges) assert.ok(from.depth + 1 === to.depth && from.row <= to.row);
    assert.ok(nodes.every((node) => node.row < rows && node.depth < depth));
  }
  assert.equal(layOutCalls([{ index: 3, parent: 1 }]).nodes.length, 1);
});

test("the path is that of the address, else the longest main one, and changes only if a call is not on it", () => {
  const paths = [
    { leaf: 5, calls: [1, 5], tokens: 900, main: false },
    { leaf: 4, calls: [1, 2, 4], tokens: 300, main: true },
    { leaf: 6, calls: [0, 6], tokens: 200, main: true },
  ];
  assert.equal(choosePath(paths, "6"), paths[2]);
  assert.equal(choosePath(paths, ""), paths[1]);
  assert.equal(choosePath(paths, "77"), paths[1]);
  assert.equal(choosePath([], ""), undefined);
  assert.equal(choosePathOf(paths, 1, paths[0]), paths[0]);
  assert.equal(choosePathOf(paths, 6, paths[0]), paths[2]);
});

test("agents' calls are in one order", () => {
  assert.deepEqual(orderCalls([{ calls: [0, 3] }, { calls: [1, 2] }]), [{ call: 0, lane: 0 }, { call: 1, lane: 1 }, { call: 2, lane: 1 }, { call: 3, lane: 0 }]);
});

test("system prompts and long results of tools are folded, short ones are not", () => {
  assert.ok(isFolded(message("system", "x")));
  assert.ok(isFolded(message("tool", "x".repeat(500))));
  assert.ok(!isFolded(message("tool", "4556")));
  assert.ok(!isFolded(message("user", "x".repeat(5000))));
  assert.equal(replyText({ role: "assistant", content: "b", reasoning: "a", tool_calls: [{ id: null, name: "f", arguments: "{}" }] }), "a\nb\nf({})");
  assert.equal(replyText(null), "");
});

test("the first and the last play are compared, by their best answers", () => {
  const play = (step, ...rewards) => ({ split: "train", step, episodes: rewards.map((reward, repeat) => ({ repeat, reward, answer: `a${repeat}` })) });
  const plays = [play(1, 0, 1), play(5, 0.5, 0.2), play(9, 1)];
  assert.deepEqual(choosePair(plays, "", ""), [plays[0], plays[2]]);
  assert.deepEqual(choosePair(plays, "train/5", "nothing"), [plays[1], plays[2]]);
  assert.equal(chooseAnswer(plays[1], null).repeat, 0);
  assert.equal(chooseAnswer(plays[1], null, -1).repeat, 1);
  assert.equal(chooseAnswer(plays[1], 1).repeat, 1);
});
