// @ts-check
/** A form that writes a configuration: set keys and read the YAML, or paste a YAML and change its keys. */
import { html, signal, useEffect, useMemo, useState } from "../html.js";
import { Form } from "../configuration/form.js";
import { readSections } from "../configuration/fields.js";
import { BackboneView, YamlEditor } from "../configuration/result.js";
import { Answer, Problems } from "../parts/notices.js";
import { query } from "../route.js";
import { api, describe, get, useAnswer } from "../source.js";
import { removeKey, setKey } from "../yaml/edit.js";
import { parse, toValue, YamlError } from "../yaml/parse.js";

/** @typedef {import("../types.js").ConfigSchema} ConfigSchema */
/** @typedef {import("../types.js").Explanation} Explanation */
/** @typedef {import("../types.js").ApiError} ApiError */
/** @typedef {import("../configuration/fields.js").Field} Field */

const PAUSE_MS = 350;
const KEY = "astuner-configuration";
// The text outlives the page: a look at a run does not lose it.
const text = signal(restore());

function restore() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

export default function ConfigurationPage() {
  const answer = /** @type {ReturnType<typeof useAnswer<ConfigSchema>>} */ (useAnswer(api(["config", "schema"], { backbone: query("backbone") })));
  return html`<div class="page config-page">
    <div class="page-head"><div><h1>Configuration</h1><p class="about">Set keys in the form and take the YAML, or paste a YAML and see what each backbone makes of it. Nothing is stored or sent anywhere.</p></div></div>
    <${Answer} answer=${answer} what="Reading the schema">${(/** @type {ConfigSchema} */ data) => html`<${Editor} data=${data} />`}<//>
  </div>`;
}

/** @param {{data: ConfigSchema}} props */
function Editor({ data }) {
  const [explained, setExplained] = useState(/** @type {Explanation|null} */ (null));
  const [error, setError] = useState(/** @type {ApiError|null} */ (null));
  const [waiting, setWaiting] = useState(true);
  const sections = useMemo(() => readSections(data), [data]);
  const read = useMemo(() => readText(text.value), [text.value]);
  const yaml = text.value;
  useEffect(() => {
    try {
      sessionStorage.setItem(KEY, yaml);
    } catch {
      // Without storage the text lasts as long as the page.
    }
    const stop = new AbortController();
    setWaiting(true);
    const timer = setTimeout(() => {
      // An empty text has its defaults, but nothing in it is wrong yet.
      const empty = !yaml.trim();
      get(api(["config", "explain"]), { body: { yaml: empty ? "astuner: {}\n" : yaml, backbones: data.backbones }, signal: stop.signal }).then(
        (answer) => {
          const found = /** @type {Explanation} */ (answer);
          setExplained(empty ? { ...found, problems: [] } : found);
          setError(null);
          setWaiting(false);
        },
        (problem) => { if (!stop.signal.aborted) { setError(describe(problem)); setWaiting(false); } },
      );
    }, PAUSE_MS);
    return () => { clearTimeout(timer); stop.abort(); };
  }, [yaml, data]);

  /** @param {Field} field @param {unknown} value */
  const set = (field, value) => {
    const usual = JSON.stringify(value) === JSON.stringify(field.otherwise);
    text.value = usual ? removeKey(yaml, field.path) : setKey(yaml, field.path, value, () => field.text || null);
  };
  const own = read.tree?.astuner?.backbone;
  const chosen = data.backbones.includes(own) ? own : null;
  return html`<${Problems} problems=${data.problems} />
    <div class="config-grid">
      <${Form} sections=${sections} tree=${read.tree} explained=${explained} backbones=${chosen ? [chosen] : data.backbones} disabled=${read.unread !== null} onSet=${set}
        onReset=${(/** @type {Field} */ field) => { text.value = removeKey(yaml, field.path); }} />
      <div class="config-result">
        <${YamlEditor} text=${yaml} onText=${(/** @type {string} */ next) => { text.value = next; }} unread=${read.unread} explained=${explained} error=${error} examples=${data.examples ?? []} waiting=${waiting} />
        <${BackboneView} explained=${explained} backbones=${data.backbones} own=${chosen} />
      </div>
    </div>`;
}

/** @param {string} yaml @returns {{tree: any, unread: {message: string, line: number}|null}} */
function readText(yaml) {
  try {
    const tree = toValue(parse(yaml));
    // The older root is read like the present one, but a form that writes the other would make two.
    const old = tree && typeof tree === "object" && "ajet" in tree && !("astuner" in tree);
    return { tree, unread: old ? { message: "its root is the older spelling `ajet`", line: 0 } : null };
  } catch (problem) {
    if (problem instanceof YamlError) return { tree: {}, unread: { message: problem.message, line: problem.line } };
    throw problem;
  }
}
