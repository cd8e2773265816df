#!/usr/bin/env bash
# reasoning-gym 0.1.25: with one seed, some kinds of puzzles are others in each process, and one kind at each access.
#
# `create_dataset(name, seed=42)[i]` draws from a generator seeded with seed + i, so the same index should give the same puzzle.
# * isomorphic_strings, polynomial_multiplication and ransom_note also iterate over a `set` of strings, whose order follows
#   Python's hash of strings: random in each process unless PYTHONHASHSEED is set. A resumed run, or an evaluation in another
#   process, asks other questions under the same index.
# * In knight_swap and word_ladder the questions stay and the reference answers change in the same way.
# * codeio runs code that draws from the global generator of `random`: an item differs when it is read again.
#
# Seen with Python 3.11.7 on Linux, 28 November 2026:
#   other questions with other hashes: isomorphic_strings polynomial_multiplication ransom_note
#   other reference answers only: knight_swap word_ladder
#   other questions with the same hashes: none
#   other when read again: codeio
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "reasoning-gym==0.1.25"
cat >"$work/make.py" <<'PYTHON'
import json
import sys

from reasoning_gym import create_dataset


def read(puzzles):
    return [[puzzles[i]["question"], puzzles[i]["answer"]] for i in range(6)]


sets = "isomorphic_strings knight_swap polynomial_multiplication ransom_note word_ladder"
made, unsteady = {}, []
for family in [*sets.split(), "codeio", "chain_sum", "leg_counting"]:
    puzzles = create_dataset(family, seed=42, size=6)
    made[family] = read(puzzles)
    if read(puzzles) != made[family]:
        unsteady.append(family)
        del made[family]
json.dump([made, unsteady], open(sys.argv[1], "w"))
PYTHON
for hashes in 0:first 0:again 1:other; do
    PYTHONHASHSEED=${hashes%:*} "$work/venv/bin/python" "$work/make.py" "$work/${hashes#*:}.json"
done
"$work/venv/bin/python" - "$work" <<'PYTHON'
import json
import sys

(first, unsteady), (again, _), (other, _) = (json.load(open(f"{sys.argv[1]}/{name}.json")) for name in ("first", "again", "other"))


def compare(one, two):
    questions = [family for family in one if [q for q, _ in one[family]] != [q for q, _ in two[family]]]
    return questions, [family for family in one if family not in questions and one[family] != two[family]]


(questions, answers), (same, _) = compare(first, other), compare(first, again)
seen = f"""other questions with other hashes: {' '.join(questions)}
other reference answers only: {' '.join(answers)}
other questions with the same hashes: {' '.join(same) or 'none'}
other when read again: {' '.join(unsteady)}"""
print(seen)
sys.exit(
    seen
    != """other questions with other hashes: isomorphic_strings polynomial_multiplication ransom_note
other reference answers only: knight_swap word_ladder
other questions with the same hashes: none
other when read again: codeio"""
)
PYTHON
