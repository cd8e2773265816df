#!/usr/bin/env bash
# datasets 5.2.0: the value of a field in a JSON file depends on the other rows, and a text that looks like JSON becomes what it says.
#
# `load_dataset("json", …)` gives each column one type, found from its rows. On rows as in data sets of questions and answers:
# * A column of dates as texts, all of one form, becomes times: the reference answer "2024-01-01" is a `datetime` in a split
#   whose answers are all dates, and the text in a split with one other answer. A column of texts such as "12:30" stays text.
# * In a column with numbers and texts, which has the type Json, a text that is valid JSON is parsed: "42" becomes the number 42,
#   "[1, 2]" a list, "null" None. A text that is not, "forty", stays.
# * An integer next to a number with a fraction, or one beyond 64 bits, becomes a float and loses digits, without a warning.
#
# Seen with pyarrow 26.0.1 and Python 3.11.7 on Linux, 28 November 2026:
#   all dates: datetime.datetime(2024, 1, 1, 0, 0), datetime.datetime(2025, 12, 31, 0, 0)
#   a date and a word: '2024-01-01', 'never'
#   a number and texts: 7, 42, [1, 2], None, 'forty'
#   texts alone: '42', '[1, 2]', 'null', 'forty'
#   a large integer and a fraction: 9007199254740992.0, 2.5
#   an integer beyond 64 bits: 1.2345678901234568e+22
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "datasets==5.2.0" "pyarrow==26.0.1"
cat >"$work/read.py" <<'PYTHON'
import json
import pathlib
import sys

import datasets

CASES = {
    "all dates": ["2024-01-01", "2025-12-31"],
    "a date and a word": ["2024-01-01", "never"],
    "a number and texts": [7, "42", "[1, 2]", "null", "forty"],
    "texts alone": ["42", "[1, 2]", "null", "forty"],
    "a large integer and a fraction": [2**53 + 1, 2.5],
    "an integer beyond 64 bits": [12345678901234567890123],
}
datasets.disable_progress_bars()
for number, (name, answers) in enumerate(CASES.items()):
    file = pathlib.Path(sys.argv[1], f"{number}.jsonl")
    file.write_text("".join(json.dumps({"question": "Which?", "answer": answer}) + "\n" for answer in answers))
    rows = datasets.load_dataset("json", data_files=str(file), split="train", cache_dir=sys.argv[1])
    print(f"{name}: {', '.join(repr(row['answer']) for row in rows)}")
PYTHON
HF_HUB_OFFLINE=1 HF_HOME="$work/home" "$work/venv/bin/python" "$work/read.py" "$work" | tee "$work/seen"
diff "$work/seen" - <<'EXPECTED'
all dates: datetime.datetime(2024, 1, 1, 0, 0), datetime.datetime(2025, 12, 31, 0, 0)
a date and a word: '2024-01-01', 'never'
a number and texts: 7, 42, [1, 2], None, 'forty'
texts alone: '42', '[1, 2]', 'null', 'forty'
a large integer and a fraction: 9007199254740992.0, 2.5
an integer beyond 64 bits: 1.2345678901234568e+22
EXPECTED
