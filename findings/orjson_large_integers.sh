#!/usr/bin/env bash
# orjson 3.13.0: an integer beyond 64 bits is read as a float, without an error.
#
# JSON has no bound for integers, and `json` and msgspec read them exactly. orjson refuses to write such an integer, but reads one
# as the nearest float: an id, a hash or a seed of 2**64 and more changes its value and its type on the way through a server.
#
# Seen with Python 3.11.7 on Linux, 28 November 2026:
#   json 18446744073709551617, msgspec 18446744073709551617, orjson 1.8446744073709552e+19; writing: TypeError
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "orjson==3.13.0" "msgspec==0.22.0"
"$work/venv/bin/python" - <<'PYTHON'
import json
import sys

import msgspec
import orjson

number = 2**64 + 1
values = {"json": json.loads, "msgspec": msgspec.json.decode, "orjson": orjson.loads}
seen = ", ".join(f"{name} {read(str(number))!r}" for name, read in values.items())
try:
    orjson.dumps(number)
    seen += "; writing: as it is"
except TypeError:
    seen += "; writing: TypeError"
print(seen)
sys.exit(seen != f"json {number}, msgspec {number}, orjson 1.8446744073709552e+19; writing: TypeError")
PYTHON
