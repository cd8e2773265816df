import assert from "node:assert/strict";
import { test } from "node:test";
import { html } from "../../src/astuner_logview/static/app/html.js";
import { indentJson, readArguments } from "../../src/astuner_logview/static/app/text/arguments.js";
import { cutText } from "../../src/astuner_logview/static/app/text/cut.js";
import { diffWords, measureLikeness, splitWords } from "../../src/astuner_logview/static/app/text/diff.js";
import { makeRandom, pick } from "./random.mjs";

const before = (changes) => changes.filter((change) => change.kind !== "added").map((change) => change.text).join("");
const after = (changes) => changes.filter((change) => change.kind !== "removed").map((change) => change.text).join("");

/** Words that two texts can keep at most, by the quadratic table. */
function countCommon(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Int32Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  }
  return table[0][0];
}

test("a difference holds both texts, and keeps as much as can be kept", () => {
  const random = makeRandom(1);
  for (let round = 0; round < 2000; round += 1) {
    const signs = "+-*/%".slice(0, 1 + Math.floor(random() * 5));
    const write = () => Array.from({ length: Math.floor(random() * 16) }, () => pick(random, [...signs])).join("");
    const [a, b] = [write(), write()];
    const changes = diffWords(a, b);
    assert.equal(before(changes), a);
    assert.equal(after(changes), b);
    const kept = changes.filter((change) => change.kind === "same").reduce((sum, change) => sum + splitWords(change.text).length, 0);
    assert.equal(kept, countCommon(splitWords(a), splitWords(b)), `${a} | ${b}`);
  }
});

test("a phrase that was replaced is one change", () => {
  assert.deepEqual(diffWords("it is a red apple", "it is one green apple"), [
    { kind: "same", text: "it is " },
    { kind: "removed", text: "a red" },
    { kind: "added", text: "one green" },
    { kind: "same", text: " apple" },
  ]);
});

test("texts that share next to nothing are still told apart", () => {
  const [a, b] = [3, 7].map((step) => Array.from({ length: 6000 }, (_, at) => `w${(at * step) % 977}`).join(" "));
  const changes = diffWords(a, b);
  assert.equal(before(changes), a);
  assert.equal(after(changes), b);
});

test("likeness is 1 for the same text and 0 for another", () => {
  assert.equal(measureLikeness(diffWords("a b", "a b")), 1);
  assert.equal(measureLikeness(diffWords("a", "b")), 0);
  assert.equal(measureLikeness(diffWords("", "")), 1);
});

test("a text is cut at a whole character, and not for a few letters", () => {
  assert.deepEqual(cutText("short", 100), { start: "short", left: 0 });
  assert.deepEqual(cutText("x".repeat(110), 100), { start: "x".repeat(110), left: 0 });
  assert.deepEqual(cutText("x".repeat(1000), 100), { start: "x".repeat(100), left: 900 });
  const emoji = `${"x".repeat(99)}😀${"y".repeat(100)}`;
  assert.equal(cutText(emoji, 100).start, "x".repeat(99));
  assert.equal(cutText("a\nb\nc\nd", 1000, 2).start, "a\nb");
});

test("arguments are read by name, and anything else is left as it is", () => {
  assert.deepEqual(readArguments('{"code": "a\\nb", "n": 1}'), [
    { name: "code", value: "a\nb", isText: true },
    { name: "n", value: "1", isText: false },
  ]);
  for (const text of ["", "[1]", "null", '{"a": 1', "68 * 67"]) assert.equal(readArguments(text), null);
  assert.equal(indentJson('{"a":[1]}'), '{\n  "a": [\n    1\n  ]\n}');
  assert.equal(indentJson("{ not json"), "{ not json");
});

test("what turns text around is shown wherever a page has it, and nothing else changes", () => {
  const name = "evil\u202Egpj.exe";
  const node = html`<p class="x" title=${name} aria-label=${`a ${name}`} data-id=${name}>${name} and ${[name, html`<b>${name}</b>`]}<i>plain\ttext</i>${3}</p>`;
  const shown = "evil[RLO]gpj.exe";
  assert.deepEqual([node.props.title, node.props["aria-label"], node.props["data-id"]], [shown, `a ${shown}`, name]);
  const [first, , [second, bold], plain, count] = node.props.children;
  assert.deepEqual([first, second, bold.props.children, plain.props.children, count], [shown, shown, shown, "plain\ttext", 3]);
  const Part = () => null;
  assert.equal(html`<${Part} title=${name} />`.props.title, name);
});
