// @ts-check
/**
 * What the server answers: API.md as types. This module has no code; import its types with
 * `@typedef {import("./types.js").RunRow} RunRow`.
 *
 * A number that is not finite and anything that is not known is null.
 */

/** @typedef {{error: string, remedy: string, at?: number}} ApiError */
/** @typedef {Record<string, unknown>} Tree */
/** @typedef {[number, number]} Point */

/**
 * @typedef {Object} RunRow
 * @property {string} id
 * @property {string} name
 * @property {string} path
 * @property {string|null} backbone
 * @property {string} status
 * @property {string|null} detail
 * @property {number|null} steps
 * @property {number|null} planned_steps
 * @property {number|null} first_reward
 * @property {number|null} last_reward
 * @property {number|null} best_validation
 * @property {number|null} best_step
 * @property {number|null} time_s
 * @property {number|null} tokens
 * @property {string|null} started
 * @property {string|null} updated
 * @property {string|null} model
 * @property {number|null} episodes
 * @property {number|null} failed
 * @property {string|null} replay_of
 * @property {number|null} bytes
 * @property {number|null} indexed
 * @property {[number, number|null][]} [curve]
 */

/** @typedef {{roots: string[], runs: RunRow[], problems: string[]}} Runs */

/**
 * @typedef {Object} Comparison
 * @property {RunRow[]} runs
 * @property {{key: string, values: unknown[]}[]} configuration
 * @property {Record<string, [number, number|null][][]>} curves
 * @property {string} split
 * @property {string} measure
 * @property {{task: string, scores: (number|null)[]}[]} tasks
 * @property {number} same_tasks with the same score in all runs; `tasks` are the others
 * @property {string[]} problems
 */

/**
 * @typedef {Object} RunFacts
 * @property {Record<string, string>} versions
 * @property {string[]} plugins
 * @property {string|string[]|null} command
 * @property {unknown} git
 * @property {Tree[]} attempts
 * @property {number|null} seed
 * @property {{given: string|null, resolved: Tree|null}} config
 * @property {{step: number, best: boolean, last: boolean}[]} checkpoints
 * @property {{step: number, reward: number|null}[]} validations
 * @property {Record<string, {steps: number[], episodes: number|null}>} splits
 * @property {boolean} tokenizer
 * @property {{steps: number, bytes: number}|null} tokens_recorded
 * @property {string[]} agents
 * @property {string[]} components
 * @property {string[]} problems
 */
/** @typedef {RunRow & RunFacts} Run */

/** @typedef {Record<string, number|string|null> & {step: number}} MetricRow */
/**
 * @typedef {Object} Metrics
 * @property {MetricRow[]} train
 * @property {MetricRow[]} validation
 * @property {Record<string, {unit: string|null, meaning: string|null}>} names
 * @property {{title: string, metrics: string[]}[]} groups
 * @property {string[]} problems
 */

/** @typedef {{reason: string, label: string, count: number, episodes: number|null, filter: string|null}} Loss */
/** @typedef {{name: string, label: string, unit: string, count: number, filter: string|null, losses: Loss[]}} Stage */
/** @typedef {{step: number|null, stages: Stage[], problems: string[]}} Waterfall */

/**
 * @typedef {Object} StepRow
 * @property {number} step
 * @property {string} split
 * @property {number} episodes
 * @property {number} failed
 * @property {number} groups
 * @property {number|null} reward_mean
 * @property {number|null} reward_min
 * @property {number|null} reward_max
 * @property {number|null} success_rate
 * @property {number|null} without_signal
 * @property {number|null} tokens
 * @property {{task: string, reward_mean: number|null, href: string}|null} worst
 * @property {number|null} time_s
 */
/** @typedef {{steps: StepRow[], problems: string[]}} Steps */

/**
 * @typedef {Object} EpisodeRow
 * @property {string} id
 * @property {string} split
 * @property {number} step
 * @property {string} task
 * @property {number} repeat
 * @property {number|null} reward
 * @property {boolean|null} success
 * @property {number|null} advantage
 * @property {boolean} completed
 * @property {string|null} reason
 * @property {boolean|string|null} judge_failed
 * @property {number|null} turns
 * @property {number|null} calls
 * @property {string[]} agents
 * @property {number|null} tokens
 * @property {number|null} trained
 * @property {number|null} duration_s
 * @property {string[]} findings
 * @property {string[]} lost
 * @property {string|null} query
 * @property {[string, boolean][]|null} snippet
 */
/** @typedef {{episodes: EpisodeRow[], total: number, next: string|null, indexed: number, problems: string[]}} Episodes */

/** @typedef {{key: string, kind: "number"|"text"|"flag", meaning: string, examples: string[]}} FilterKey */
/** @typedef {{key: string, op: string, value: string, at: number, text: string}} FilterTerm */
/** @typedef {{terms: FilterTerm[], words: string[], keys: FilterKey[]}} Filter */
/** @typedef {{values: [string, number][]}} Values */

/** @typedef {{id: string|null, name: string, arguments: string}} ToolCall */
/**
 * @typedef {Object} Message
 * @property {string} role
 * @property {string|null} [name]
 * @property {string} content
 * @property {string|null} [reasoning]
 * @property {ToolCall[]} [tool_calls]
 * @property {string|null} [tool_call_id]
 * @property {Tree[]} [tools]
 * @property {{content: number, reasoning: number, arguments: number[], digest: string}} [cut] characters left out of each text; `/text` has the whole
 */
/** @typedef {{reasoning: number, content: number}} SharedReply characters that the replies of all siblings begin with, in this turn */
/** @typedef {{call: number, agent: string|null, messages: Message[], reply: Message|null, finish_reason: string|null, shared?: SharedReply}} Turn */

/**
 * @typedef {Object} Failure
 * @property {string} reason
 * @property {string|null} detail
 * @property {number|null} [attempt]
 * @property {boolean|null} [retried]
 * @property {number|null} [calls]
 * @property {number|null} [tokens]
 * @property {string|null} [place]
 * @property {string|null} [traceback]
 */

/**
 * @typedef {Object} SiblingPart
 * @property {Record<string, number>|null} rewards
 * @property {Record<string, number>} components
 * @property {string|null} rationale
 * @property {string|null} verdict_reason
 * @property {string|null} verdict_detail
 * @property {Failure|null} failure
 * @property {Record<string, number>} advantages
 * @property {Turn[]} turns_shown
 * @property {{turn: number, character: number, token: number}|null} parts_at
 */
/** @typedef {EpisodeRow & SiblingPart} Sibling */

/**
 * @typedef {Object} Group
 * @property {string} split
 * @property {number} step
 * @property {string} task
 * @property {string|null} query
 * @property {Message[]} messages
 * @property {Tree|null} metadata
 * @property {Sibling[]} siblings
 * @property {{path: number, tokens: number}|null} common
 * @property {{step: number, task: string}|null} previous
 * @property {{step: number, task: string}|null} next
 * @property {string[]} problems
 */

/** @typedef {{split: string, step: number, reward_mean: number|null, success_rate: number|null, episodes: (EpisodeRow & {answer: string|null})[]}} Play */
/** @typedef {{task: string, query: string|null, plays: Play[], steps: number[], checkpoints: number[], previous?: string|null, next?: string|null, problems: string[]}} Task */
/** @typedef {{task: string, query: string|null, plays: number, first_reward: number|null, last_reward: number|null, change: number|null, success_rate: number|null}} TaskRow */
/** @typedef {{tasks: TaskRow[], total: number, next: string|null, problems?: string[]}} Tasks */

/**
 * @typedef {Object} CallRow
 * @property {number} index
 * @property {string|null} agent
 * @property {string|null} target_tag
 * @property {number|null} parent
 * @property {number} kept
 * @property {number} prompt_tokens
 * @property {number} output_tokens
 * @property {number} trained_tokens
 * @property {string|null} untrained
 * @property {string|null} finish_reason
 * @property {[number, number][]} weights
 * @property {number|null} latency_s
 * @property {number|null} temperature
 * @property {Turn} turn
 * @property {number|null} mean_logprob
 * @property {string|null} conversation the name of the conversation or branch that begins here, if its agent has several
 */
/** @typedef {{leaf: number, agent: string|null, calls: number[], tokens: number, trained: number, main: boolean, conversation: string|null}} Path */

/**
 * @typedef {Object} EpisodePart
 * @property {{id: string, query: string|null, messages: Message[], metadata: Tree|null, env_type: string|null}} task_facts
 * @property {{reward: number|null, is_success: boolean|null, metadata: Tree, log_metrics: Record<string, number>}|null} output
 * @property {{reward?: number|null, is_success?: boolean|null, rewards?: Record<string, number>|null, components?: Record<string, number>, rationale?: string|null, reason?: string, detail?: string, place?: string|null, traceback?: string|null}|null} verdict
 * @property {Failure[]} failures
 * @property {{detector: string, call: number|null, evidence: string}[]} findings
 * @property {Tree} observations
 * @property {CallRow[]} calls_shown
 * @property {Path[]} paths
 * @property {{agent: string, target_tag: string|null, trained: boolean, calls: number[]}[]} lanes
 * @property {Record<string, number>} advantages
 * @property {{id: string, repeat: number, reward: number|null}[]} siblings
 * @property {string|null} previous
 * @property {string|null} next
 * @property {Record<string, number>} untrained
 * @property {string[]} problems
 */
/**
 * One episode. `task`, `calls` and `findings` of an EpisodeRow are here the things themselves.
 * @typedef {Omit<EpisodeRow, "task"|"calls"|"findings"> & Omit<EpisodePart, "task_facts"|"calls_shown"> & {task: EpisodePart["task_facts"], calls: CallRow[]}} Episode
 */

/** @typedef {{start: number, end: number, call: number, kind: "prompt"|"output", agent: string|null, role: string|null, trained: boolean, reason: string|null, weight_version: number|null, text_start: string}} Segment */
/** @typedef {{name: string, label: string, unit: string|null, meaning: string, recorded: boolean, why_not: string|null, low: number|null, high: number|null, signed: boolean}} Measure */
/**
 * @typedef {Object} Stream
 * @property {number} path the call at its end
 * @property {number} tokens
 * @property {number} chunk
 * @property {Segment[]} segments
 * @property {Measure[]} measures
 * @property {{columns: number, width: number, of: Record<string, (number|null)[]>, trained: number[], kind: (0|1)[]}} minimap
 * @property {Record<string, {index: number, text: string|null, value: number}[]>} worst
 * @property {{has: boolean, text: string}} record
 * @property {string[]} [problems]
 */
/**
 * @typedef {Object} Tokens
 * @property {number} start
 * @property {number[]} ids
 * @property {(string|null)[]} texts
 * @property {(0|1)[]} kinds
 * @property {number[]} calls
 * @property {(0|1)[]} trained
 * @property {Record<string, string>} reasons
 * @property {Record<string, (number|null)[]>} values
 * @property {(0|1|2|3|null)[]} clipped
 */

/** @typedef {{name: string, mean: number|null, min: number|null, max: number|null, count: number, histogram: [number, number, number][], by_step: [number, number|null][]}} Distribution */
/** @typedef {{components: Distribution[], rewards: Distribution, failures: {reason: string, count: number, filter: string, detail: string|null}[], judges: string[], replays: {name: string, id: string}[], problems: string[]}} Judge */
/** @typedef {{replay: {name: string, id: string}, agreement: number|null, numbers: {label: string, value: number|null, unit: string|null}[], flips: {id: string, stored: number|null, new: number|null, kind: "to_failure"|"to_success"|"gained"|"lost"}[], swapped: {split: string, step: number, task: string}[], signal_gained: number, signal_lost: number, problems: string[]}} Agreement */

/** @typedef {{id: string, symptom: string, message: string, numbers: Record<string, number|string|null>, episodes: string[], key: string, value: string, advice: string, metrics: string[], page: string, change: string, curves: Record<string, [number, number|null][]>}} WhyFinding */
/** @typedef {{findings: WhyFinding[], rules: number, steps: number, problems: string[]}} Why */

/** @typedef {Record<string, any>} JsonSchema */
/** @typedef {{schema: JsonSchema, backbones: string[], examples: {title: string, yaml: string}[], problems?: string[]}} ConfigSchema */
/** @typedef {{place: string, line: number|null, message: string, remedy: string|null}} ConfigProblem */
/** @typedef {{key: string, value: unknown, origin: string, native: {key: string, value: unknown}[], honoured: boolean, note: string|null}} ExplainedKey */
/** @typedef {{problems: ConfigProblem[], by_backbone: Record<string, {keys: ExplainedKey[], problems: ConfigProblem[]}>, yaml: string}} Explanation */

/** @typedef {{step: number, split: string, metrics: MetricRow}} StepEvent */
/** @typedef {{added: number, rows: EpisodeRow[], failed: EpisodeRow[]}} EpisodesEvent */

export {};
