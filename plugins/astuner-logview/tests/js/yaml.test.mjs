import assert from "node:assert/strict";
import { test } from "node:test";
import { at, removeKey, setKey } from "../../src/astuner_logview/static/app/yaml/edit.js";
import { parse, toValue, YamlError } from "../../src/astuner_logview/static/app/yaml/parse.js";
import { resolvePlain, writeScalar } from "../../src/astuner_logview/static/app/yaml/scalars.js";

const read = (text) => toValue(parse(text));

const TUNE = `# Of a run.
astuner:
  seed: 0                              # every random number
  model:
    path: ./model                      # any model

  task_reader:
    type: dataset_file
    dataset_file:
      training: {file_path: tasks/train.jsonl}
  logger: [console, 'a b']
  note: |
    first # not a comment
    second
`;

test("a text is read with the values of its keys", () => {
  assert.deepEqual(read(TUNE), {
    astuner: {
      seed: 0, model: { path: "./model" },
      task_reader: { type: "dataset_file", dataset_file: { training: { file_path: "tasks/train.jsonl" } } },
      logger: ["console", "a b"], note: "first # not a comment\nsecond\n",
    },
  });
});

test("an empty text is an empty map", () => {
  assert.deepEqual(read("# nothing\n"), {});
});

test("words mean what YAML 1.1 says", () => {
  const text = "a: yes\nb: 1e-6\nc: 1.0e-6\nd: 'yes'\ne: ~\nf: -3\ng: ${oc.env:HOME}\nh: a:b\n";
  assert.deepEqual(read(text), { a: true, b: 1e-6, c: 1e-6, d: "yes", e: null, f: -3, g: "${oc.env:HOME}", h: "a:b" });
});

test("lists of maps, nested lists and brackets over lines are read", () => {
  const text = "a:\n- name: x\n  size: 2\n- name: y\nb:\n  - - 1\n    - 2\n  - {k: [1, 2],\n     l: \"}\"}\n";

  assert.deepEqual(read(text), { a: [{ name: "x", size: 2 }, { name: "y" }], b: [[1, 2], { k: [1, 2], l: "}" }] });
});

for (const [what, text] of Object.entries({ "an anchor": "a: &x 1", "a key twice": "a: 1\na: 2", "an open bracket": "a: [1", "a tab": "a:\n\tb: 1" })) {
  test(`${what} is refused with its line`, () => {
    assert.throws(() => read(text), (problem) => problem instanceof YamlError && Number.isInteger(problem.line));
  });
}

test("a changed key keeps its comment, and other lines stay as they are", () => {
  assert.equal(setKey(TUNE, ["astuner", "seed"], 7), TUNE.replace("seed: 0 ", "seed: 7 "));
});

test("a new key goes below its section, with its description", () => {
  const text = setKey(TUNE, ["astuner", "model", "lora_rank"], 8, () => "Rank of the adapters.");

  assert.match(text, /path: \.\/model .*\n {4}lora_rank: 8 +# Rank of the adapters\.\n/);
  assert.equal(at(read(text), ["astuner", "model", "lora_rank"]), 8);
});

test("missing sections are added", () => {
  assert.equal(setKey("", ["astuner", "trainer_common", "optim", "lr"], 1e-6), "astuner:\n  trainer_common:\n    optim:\n      lr: 0.000001\n");
});

test("a key inside brackets is set", () => {
  const text = setKey(TUNE, ["astuner", "task_reader", "dataset_file", "training", "format"], "json");

  assert.deepEqual(at(read(text), ["astuner", "task_reader", "dataset_file", "training"]), { file_path: "tasks/train.jsonl", format: "json" });
});

test("a removed key takes empty sections with it", () => {
  const text = removeKey(TUNE, ["astuner", "task_reader", "dataset_file", "training", "file_path"]);

  assert.deepEqual(at(read(text), ["astuner", "task_reader"]), { type: "dataset_file" });
  assert.equal(removeKey(setKey("", ["astuner", "a", "b"], 1), ["astuner", "a", "b"]).trim(), "");
});

const SCALARS = ["yes", "null", "", " a", "a ", "1", "1.0", "1e-6", "0x1f", "-", "- a", "a: b", "a #b", "#a", "[x", "{x", "&a", "*a", "!a", "%a", "@a", "`a", "'", '"', "a\nb", "a\n", "\n", "ü 漢", "${a.b}", "1:30", "a,b", "x\u202ey", "~", "=", "2026-11-25"];

for (const text of SCALARS) {
  test(`the text ${JSON.stringify(text)} comes back as it was`, () => {
    assert.equal(at(read(setKey("", ["a", "b"], text)), ["a", "b"]), text);
    assert.deepEqual(at(read(setKey("", ["a"], [text, { k: text }])), ["a"]), [text, { k: text }]);
  });
}

for (const value of [0, -1.5, 1e-7, 1e21, 7e-4, true, null, [], {}, [1, "x"], { a: { b: [1, { c: 2 }] } }]) {
  test(`the value ${JSON.stringify(value)} comes back as it was`, () => {
    assert.deepEqual(at(read(setKey("", ["a", "b"], value)), ["a", "b"]), value);
  });
}

test("a small number is written so that YAML 1.1 takes it for a number", () => {
  assert.equal(writeScalar(1e-7), "1.0e-7");
  assert.equal(resolvePlain("1.0e-7"), 1e-7);
});
