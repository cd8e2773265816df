// @ts-check
/** One key of the form: its name, what it is, the control that sets it, and what is wrong with it. */
import { html, classes } from "../html.js";
import { plain, safe } from "../format.js";
import { parse, toValue } from "../yaml/parse.js";

/** @typedef {import("./fields.js").Field} Field */
/** @typedef {import("../types.js").ConfigProblem} ConfigProblem */

/**
 * @param {{field: Field, value: unknown, set: boolean, problems: ConfigProblem[], ignoredBy: {backbone: string, note: string|null}[], onChange: (value: unknown) => void, onReset: () => void, disabled: boolean}} props
 */
export function FieldRow({ field, value, set, problems, ignoredBy, onChange, onReset, disabled }) {
  const id = `field-${field.name}`;
  const described = [`${id}-text`, problems.length ? `${id}-problem` : ""].filter(Boolean).join(" ");
  return html`<div class=${classes("field", set && "is-set", problems.length > 0 && "has-problem")}>
    <div class="field-head">
      <label for=${id}><code>${field.path.at(-1)}</code>${field.required && html` <span class="badge">required</span>`}</label>
      ${set && html`<button type="button" class="quiet reset" disabled=${disabled} onClick=${onReset} aria-label=${`Reset ${field.name}`}>Reset</button>`}
    </div>
    <p class="field-text" id=${`${id}-text`}><${Described} text=${field.text} /></p>
    <${Control} id=${id} field=${field} value=${value} set=${set} described=${described} invalid=${problems.length > 0} onChange=${onChange} disabled=${disabled} />
    ${problems.length > 0 && html`<div id=${`${id}-problem`} class="field-problem">${problems.map((problem, at) => html`<p key=${at}><strong>${safe(problem.message)}</strong> ${safe(problem.remedy)}</p>`)}</div>`}
    ${ignoredBy.map((item) => html`<p class="field-ignored" key=${item.backbone}><strong>${safe(item.backbone)}</strong> does not use this.${item.note ? ` ${safe(item.note)}` : ""}</p>`)}
  </div>`;
}

/** A description: words between backticks are code. @param {{text: string}} props */
export function Described({ text }) {
  return html`${text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? html`<code>${part}</code>` : part))}`;
}

/** @param {{id: string, field: Field, value: unknown, set: boolean, described: string, invalid: boolean, disabled: boolean, onChange: (value: unknown) => void}} props */
function Control({ id, field, value, set, described, invalid, disabled, onChange }) {
  const shared = { id, disabled, "aria-describedby": described, "aria-invalid": invalid ? "true" : undefined };
  const usual = field.otherwise === undefined ? "" : field.otherwise === null ? "null" : field.otherwise === "" ? "" : plain(field.otherwise);
  const typed = (/** @type {Event} */ event) => /** @type {HTMLInputElement} */ (event.currentTarget).value;
  if (field.kind === "flag" && typeof (set ? value : field.otherwise ?? false) !== "string") {
    const on = Boolean(set ? value : field.otherwise);
    return html`<label class="switch"><input type="checkbox" role="switch" ...${shared} checked=${on} onChange=${(/** @type {Event} */ event) => onChange(/** @type {HTMLInputElement} */ (event.currentTarget).checked)} />${on ? "true" : "false"}</label>`;
  }
  if (field.kind === "choice") {
    const current = set ? plain(value) : usual;
    const options = [...new Set([...field.choices, ...(current ? [current] : [])])];
    return html`<div class="row"><select ...${shared} value=${current} onChange=${(/** @type {Event} */ event) => onChange(typed(event))}>
      ${!current && html`<option value="">choose</option>`}${options.map((option) => html`<option key=${option} value=${option}>${option}${option === usual ? " (default)" : ""}</option>`)}</select></div>`;
  }
  if (field.kind === "tree" || (field.kind === "text" && typeof value === "string" && value.includes("\n"))) {
    const text = set ? (typeof value === "string" ? value : JSON.stringify(value, null, 1)) : "";
    return html`<textarea ...${shared} rows=${Math.min(Math.max(text.split("\n").length, 2), 10)} class="mono" spellcheck=${false} placeholder=${usual || "{key: value}"} value=${text}
      onChange=${(/** @type {Event} */ event) => onChange(field.kind === "tree" ? readText(typed(event)) : typed(event))}></textarea>`;
  }
  const text = set ? (Array.isArray(value) ? value.map(plain).join(", ") : value === null ? "null" : plain(value)) : "";
  return html`<input ...${shared} type="text" class="mono" inputmode=${field.kind === "whole" ? "numeric" : field.kind === "number" ? "decimal" : undefined} spellcheck=${false} autocomplete="off"
    placeholder=${usual} value=${text} onChange=${(/** @type {Event} */ event) => onChange(readInput(field, typed(event)))} />`;
}

/** Return the value of what was typed; undefined if nothing was. @param {Field} field @param {string} text */
function readInput(field, text) {
  if (text.trim() === "") return undefined;
  if (field.kind === "list" && !/^\s*\[/.test(text)) return text.includes("${") ? text : text.split(",").map((item) => readText(item.trim())).filter((item) => item !== null && item !== "");
  if (field.kind === "text") return field.nullable && text.trim() === "null" ? null : text;
  return readText(text);
}

/** Read a text as YAML; as itself if it is none. @param {string} text @returns {unknown} */
function readText(text) {
  if (text.trim() === "") return undefined;
  try {
    return toValue(parse(text));
  } catch {
    return text;
  }
}
