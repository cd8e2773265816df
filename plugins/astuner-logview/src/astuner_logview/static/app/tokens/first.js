// @ts-check
/** What the page of tokens needs before it can draw any. */
import { query } from "../route.js";
import { api } from "../source.js";

/** Tokens of a chunk, known before the stream says so: the first chunk is asked for together with the stream. */
const CHUNK = 2048;

/** The address of a path; without `path`, of the longest. @param {string} run @param {string} id @param {string} path */
export function addressStream(run, id, path) {
  return api(["runs", run, "stream"], { id, path });
}

/** @param {string} run @param {string} id @param {string} path @param {number} chunk */
export function addressChunk(run, id, path, chunk) {
  return api(["runs", run, "tokens"], { id, path, chunk });
}

/** The chunk with the token that the address names. */
export function findFirstChunk() {
  return Math.floor(Math.max(0, Number(query("at")) || 0) / CHUNK);
}

/** The addresses of what is drawn first. @param {import("../pages/index.js").PageProps} props */
export function listFirst({ run, parts }) {
  const id = parts[0] ?? "";
  const path = query("path");
  return [addressStream(run, id, path), addressChunk(run, id, path, findFirstChunk())];
}
