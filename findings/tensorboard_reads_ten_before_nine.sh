#!/usr/bin/env bash
# TensorBoard 2.20.0: of two event files that one process began within a second, the tenth is read before the ninth.
#
# A file is named by its second, the host, the process and a number that counts the process's writers, in any directory, without
# leading zeros; a directory's files are read in the order of their names. So where a sweep in one process resumes a run in the
# directory that holds it, and its writers are the ninth and the tenth, what the second one wrote comes first: the points of the
# first follow it, and the curve ends with values that were replaced. With any other two numbers of equal length it is as written.
#
# Seen with tensorboard 2.20.0 and Python 3.11.7 on Linux, 1 December 2026; the steps and values of one tag, as they are read:
#   writers 8 and 9:  [(1, 0.0), (2, 0.0), (2, 1.0), (3, 1.0)]
#   writers 9 and 10: [(2, 1.0), (3, 1.0), (1, 0.0), (2, 0.0)]
# Exits with 1 if that has changed.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "tensorboard==2.20.0" "setuptools<81" 2>/dev/null
cat >"$work/check.py" <<'PYTHON'
import sys
import time
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def write(directory, points):
    writer = EventFileWriter(str(directory))
    for step, value in points:
        summary = Summary(value=[Summary.Value(tag="reward", simple_value=value)])
        writer.add_event(Event(wall_time=step, step=step, summary=summary))
    writer.close()


def read_after(earlier, home):
    """Return the points of a run and of what resumed it, where so many writers were made before in this process."""
    for number in range(earlier):
        write(home / f"other-{number}", [])
    run = home / "run"
    write(run, [(1, 0.0), (2, 0.0)])
    write(run, [(2, 1.0), (3, 1.0)])
    assert len({file.name.split(".")[3] for file in run.iterdir()}) == 1, "not within a second"
    return [(event.step, event.value) for event in EventAccumulator(str(run)).Reload().Scalars("reward")]


# The number of the first writer of a process is 0 or 1, by version: it is read off its file.
home, wanted = Path(sys.argv[1]), int(sys.argv[2])
write(home / "first", [])
(file,) = (home / "first").iterdir()
begun = int(file.name.rpartition(".")[2])
time.sleep(1 - time.time() % 1)
print(read_after(wanted - begun - 1, home))
PYTHON
for first in 8 9; do
    # A busy machine may need more than one attempt to be done within a second.
    for attempt in 1 2 3 4 5; do
        mkdir "$work/$first-$attempt"
        if "$work/venv/bin/python" "$work/check.py" "$work/$first-$attempt" "$first" >"$work/$first.txt"; then break; fi
    done
    cat "$work/$first.txt"
done
[ "$(cat "$work/8.txt")" = "[(1, 0.0), (2, 0.0), (2, 1.0), (3, 1.0)]" ] || { echo "in order before: changed"; exit 1; }
[ "$(cat "$work/9.txt")" = "[(2, 1.0), (3, 1.0), (1, 0.0), (2, 0.0)]" ] || { echo "ten after nine: changed"; exit 1; }
