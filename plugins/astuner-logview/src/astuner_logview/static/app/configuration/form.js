// @ts-check
/** The form: a list of sections, the chosen one's fields, or the fields that a search finds. */
import { html, classes, useMemo } from "../html.js";
import { count, plural } from "../format.js";
import { FilterBox } from "../parts/filter.js";
import { Empty } from "../parts/notices.js";
import { query, setQuery } from "../route.js";
import { at } from "../yaml/edit.js";
import { Described, FieldRow } from "./field.js";
import { allFields, isAt } from "./fields.js";

/** @typedef {import("./fields.js").Field} Field */
/** @typedef {import("./fields.js").Group} Group */
/** @typedef {import("../types.js").Explanation} Explanation */
/** @typedef {{tree: any, explained: Explanation|null, backbones: string[], disabled: boolean, onSet: (field: Field, value: unknown) => void, onReset: (field: Field) => void}} FormState */

/** @param {{sections: Group[]} & FormState} props */
export function Form({ sections, ...state }) {
  const search = query("find");
  const chosen = sections.find((section) => section.name === query("section")) ?? sections[0];
  const found = useMemo(() => (search ? findFields(sections, search) : []), [sections, search]);
  const problems = state.explained ? [...state.explained.problems, ...Object.values(state.explained.by_backbone).flatMap((item) => item.problems)] : [];
  return html`<div class="config-form">
    <nav class="config-nav" aria-label="Sections of the configuration"><ul>
      ${sections.map((section) => {
        const fields = allFields(section);
        const changed = fields.filter((field) => at(state.tree, field.path) !== undefined).length;
        const wrong = problems.filter((problem) => fields.some((field) => isAt(problem.place, field))).length;
        return html`<li key=${section.name}><button type="button" class="quiet" aria-current=${!search && section === chosen ? "true" : undefined} onClick=${() => setQuery({ section: section.name, find: null })}>
          <span class="truncate">${section.title}</span>${wrong > 0 ? html`<span class="badge bad" title=${plural(wrong, "problem")}>${wrong}</span>` : changed > 0 && html`<span class="badge accent" title=${`${plural(changed, "key")} set`}>${changed}</span>`}</button></li>`;
      })}</ul></nav>
    <div class="config-fields">
      <${FilterBox} label="Search keys" placeholder="Search keys and descriptions" complete=${false} value=${search} onChange=${(/** @type {string} */ find) => setQuery({ find })} />
      ${search
        ? html`<p class="muted small" role="status">${found.length ? plural(found.length, "key") : ""}</p>
            ${found.length ? html`<div class="field-list">${found.slice(0, 60).map((field) => html`<div key=${field.name}><p class="faint small mono path">${field.path.slice(1, -1).join(".")}</p><${Row} field=${field} ...${state} /></div>`)}</div>` : html`<${Empty} title="No key matches">Nothing has “${search}” in its name or description.<//>`}`
        : chosen && html`<section aria-labelledby="section-title" class="stack"><div><h2 id="section-title">${chosen.title}</h2><p class="muted"><${Described} text=${chosen.text} /></p></div>
            <${GroupBody} key=${chosen.name} group=${chosen} level=${0} ...${state} /></section>`}
    </div>
  </div>`;
}

/** @param {{group: Group, level: number} & FormState} props */
function GroupBody({ group, level, ...state }) {
  // A group of options is open if it is set, or if a key next to it names it: `type: dataset_file`.
  const named = group.fields.filter((field) => field.kind === "choice").map((field) => at(state.tree, field.path) ?? field.otherwise);
  return html`
    ${group.fields.length > 0 && html`<div class="field-list">${group.fields.map((field) => html`<${Row} key=${field.name} field=${field} ...${state} />`)}</div>`}
    ${group.groups.map((inner) => {
      const set = allFields(inner).filter((field) => at(state.tree, field.path) !== undefined).length;
      return html`<details key=${inner.name} class=${classes("field-group", level > 0 && "nested")} open=${set > 0 || named.includes(inner.title)}>
        <summary><code>${inner.title}</code>${set > 0 && html`<span class="badge accent">${count(set)}</span>`}<span class="muted small truncate"><${Described} text=${inner.text} /></span></summary>
        <div class="stack"><${GroupBody} group=${inner} level=${level + 1} ...${state} /></div>
      </details>`;
    })}`;
}

/** @param {{field: Field} & FormState} props */
function Row({ field, tree, explained, backbones, disabled, onSet, onReset }) {
  const value = at(tree, field.path);
  const problems = (explained?.problems ?? []).filter((problem) => isAt(problem.place, field));
  const ignoredBy = value === undefined ? [] : backbones.flatMap((backbone) => {
    const key = explained?.by_backbone[backbone]?.keys.find((item) => isAt(item.key, field) && !item.honoured);
    return key ? [{ backbone, note: key.note }] : [];
  });
  return html`<${FieldRow} field=${field} value=${value} set=${value !== undefined} problems=${problems} ignoredBy=${ignoredBy} disabled=${disabled}
    onChange=${(/** @type {unknown} */ next) => (next === undefined ? onReset(field) : onSet(field, next))} onReset=${() => onReset(field)} />`;
}

/** Fields whose name has all words, first; then those whose description has them. @param {Group[]} sections @param {string} search */
function findFields(sections, search) {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (/** @type {string} */ text) => words.every((word) => text.toLowerCase().includes(word));
  const fields = sections.flatMap(allFields);
  const named = fields.filter((field) => has(field.name));
  return [...named, ...fields.filter((field) => !named.includes(field) && has(`${field.name} ${field.text}`))];
}
