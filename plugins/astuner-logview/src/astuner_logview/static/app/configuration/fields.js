// @ts-check
/** The fields of the form, read off the JSON Schema. */

/** @typedef {import("../types.js").ConfigSchema} ConfigSchema */
/** @typedef {import("../types.js").JsonSchema} JsonSchema */
/** @typedef {"flag"|"whole"|"number"|"choice"|"text"|"list"|"tree"} FieldKind */
/**
 * @typedef {Object} Field
 * @property {string[]} path from the root of the YAML: `["astuner", "data", "shuffle"]`
 * @property {string} name the path without its root, dotted
 * @property {FieldKind} kind
 * @property {string[]} choices known values of a choice; others may be allowed too
 * @property {boolean} nullable
 * @property {unknown} otherwise the default
 * @property {string} text the description
 * @property {boolean} required
 */
/** @typedef {{path: string[], name: string, title: string, text: string, fields: Field[], groups: Group[]}} Group */

export const ROOT = "astuner";

/** Return the form's sections: keys at the top, then one for each section. @param {ConfigSchema} answer @returns {Group[]} */
export function readSections(answer) {
  const schema = answer.schema;
  const root = follow(schema, schema.properties?.[ROOT] ?? schema);
  const whole = readGroup(schema, root, [ROOT]);
  const top = { ...whole, path: [ROOT], name: "", title: "Run", text: "Names of the run, its backbone and its seed.", groups: [] };
  return [top, ...whole.groups].map((section) => ({ ...section, title: capitalize(section.title) }));
}

/** @param {string} key */
function capitalize(key) {
  return key.charAt(0).toUpperCase() + key.slice(1).replaceAll("_", " ");
}

/** @param {JsonSchema} schema @param {JsonSchema} node @returns {JsonSchema} */
function follow(schema, node) {
  const reference = node.$ref ?? node.allOf?.[0]?.$ref;
  if (typeof reference !== "string") return node;
  return reference.replace(/^#\//, "").split("/").reduce((/** @type {any} */ at, key) => at?.[key], schema) ?? node;
}

/** @param {JsonSchema} schema @param {JsonSchema} node @param {string[]} path @returns {Group} */
function readGroup(schema, node, path) {
  /** @type {Group} */
  const group = { path, name: path.slice(1).join("."), title: path.at(-1) ?? "", text: node.description ?? "", fields: [], groups: [] };
  for (const [key, raw] of Object.entries(/** @type {Record<string, JsonSchema>} */ (node.properties ?? {}))) {
    if (raw.deprecated || raw.doNotSuggest) continue;
    const inner = follow(schema, raw);
    const described = { ...inner, description: raw.description ?? inner.description };
    if (inner.properties && Object.keys(inner.properties).length) group.groups.push(readGroup(schema, described, [...path, key]));
    else group.fields.push(readField(described, [...path, key], (node.required ?? []).includes(key)));
  }
  return group;
}

/** @param {JsonSchema} node @param {string[]} path @param {boolean} required @returns {Field} */
function readField(node, path, required) {
  const parts = [node, ...(node.anyOf ?? [])];
  const types = new Set(parts.flatMap((part) => part.type ?? []));
  const choices = parts.flatMap((part) => part.enum ?? []).filter((value) => value !== null).map(String);
  return {
    path, name: path.slice(1).join("."), kind: findKind(types, choices), choices, nullable: types.has("null"), otherwise: node.default,
    text: node.description ?? "", required: required || /(^|[^n]\b|; )required\.?$/.test(node.description ?? ""),
  };
}

/** @param {Set<string>} types @param {string[]} choices @returns {FieldKind} */
function findKind(types, choices) {
  if (choices.length) return "choice";
  if (types.has("boolean")) return "flag";
  if (types.has("object")) return "tree";
  if (types.has("array")) return "list";
  if (types.has("number")) return "number";
  return types.has("integer") ? "whole" : "text";
}

/** All fields of a group and of the groups in it. @param {Group} group @returns {Field[]} */
export function allFields(group) {
  return [...group.fields, ...group.groups.flatMap(allFields)];
}

/** Whether a place of a problem, `astuner.data.x` or `data.x`, is this field's or below it. @param {string} place @param {Field} field */
export function isAt(place, field) {
  const bare = place.replace(/^(astuner|ajet)\./, "");
  return bare === field.name || bare.startsWith(`${field.name}.`) || bare.startsWith(`${field.name}[`);
}
