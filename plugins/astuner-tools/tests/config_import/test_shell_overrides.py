"""The keys that a shell script sets on a command line."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.contract.errors import ConfigError
from astuner.settings.config.trees import flatten
from astuner_tools.config_import.shell_overrides import REMOVED, ShellOverrides, read_shell_overrides

SCRIPT = r"""
set -x
# trainer.comment=1
MODEL=org/name
BATCH=${BATCH:-64}
export NAME="a b"
FLAGS=(
    data.flag=True
)  # an array
python3 -m trainer.main \
    data.files="['/d/a.parquet']" \
    data.batch=$BATCH \
    +model.path=${MODEL} ++model.extra.deep=null \
    optim.lr=1e-6 run.name="$NAME" run.home=$HOME/data \
    trainer.logger=['console','wandb'] "${FLAGS[@]}" $@
"""


def read(text: str) -> ShellOverrides:
    return read_shell_overrides(text, Path("run.sh"))


def values(text: str) -> Mapping[str, Any]:
    return flatten(read(text).tree)


def test_a_script_gives_a_tree_of_values() -> None:
    assert read(SCRIPT).tree == {
        "data": {"flag": True, "files": ["/d/a.parquet"], "batch": 64},
        "model": {"path": "org/name", "extra": {"deep": None}},
        "optim": {"lr": 1e-6},
        "run": {"name": "a b", "home": "${oc.env:HOME}/data"},
        "trainer": {"logger": ["console", "wandb"]},
    }


def test_a_script_without_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        read("echo hello")


@pytest.mark.parametrize("text", ["\n\npython x a.b='1", "\n\nA=(a b", '\n\npython x "${A', "\n\npython x `date"])
def test_what_is_never_closed_is_a_problem_of_the_file(text: str) -> None:
    with pytest.raises(ConfigError, match="not a shell script that can be read: line 3"):
        read(text)


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("A=${A:-${B:-deep}}", "deep"),
        ("A=${A:-$HOME/x}", "${oc.env:HOME}/x"),
        ('A=${A:-"${HOME}/x"}', "${oc.env:HOME}/x"),
        ("B=7; A=${A:-$B}", 7),
        ("B=2; A=$((B * 3 + 1))", 7),
        ("B=2; A=$(((B + 2) / 3))", 1),
        ("B=2; A=${C:-$((B - 5))}", -3),
        (": ${A:=set}", "set"),
        ("B=dir/file.txt; A=${B##*/}", "file.txt"),
        ("B=dir/file.txt; A=${B%.*}", "dir/file"),
        ("B=Ab; A=${B,,}", "ab"),
        ("B=x; A=pre${B:+-}post", "pre-post"),
        ("A=one\nA+=two", "onetwo"),
        ("export A='$B'", "$B"),
        ("A=a\\\nb", "ab"),
    ],
)
def test_a_variable_is_what_the_script_sets_it_to(script: str, value: object) -> None:
    assert values(f"{script}\npython x a.b=$A") == {"a.b": value}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ('"${ALL[@]}"', {"a.b": 1, "a.c": "x y"}),
        ("$FLAGS", {"a.b": 1, "a.c": 2}),
        ('"$FLAGS a.d=3"', {}),
        ("'+a.b=1' \"++a.c='z'\"", {"a.b": 1, "a.c": "z"}),
        ("a.b=[x\\,y] a.c=u\\,v", {"a.b": ["x", "y"], "a.c": "u,v"}),
        ("a.b=1\\,2", {"a.b": "1,2"}),
        ("a.b= a.c=''", {"a.b": "", "a.c": ""}),
        ("a.b=1 engine=other CUDA=3", {"a.b": 1, "engine": "other"}),
        ("a.b=1 > log.txt 2>&1 | tee log", {"a.b": 1}),
        ("a.b=1 # a.c=2", {"a.b": 1}),
        ("a.b=1 <<END\na.c=2\nEND", {"a.b": 1}),
        ("a.b='${other.key}'", {"a.b": "${other.key}"}),
    ],
)
def test_words_of_a_command(words: str, expected: Mapping[str, object]) -> None:
    script = f"ALL=(a.b=1 'a.c=x y')\nFLAGS='a.b=1 a.c=2'\npython x {words}\n"
    if not expected:
        assert values(script) == {"a.b": "1 a.c=2 a.d=3"}
    else:
        assert values(script) == expected


BRANCHES = """
MODE=${MODE:-fast}
ARGS=(a.mode=$MODE)
if [ "$MODE" = slow ] || [ "$MODE" = slower ]; then
    ARGS+=(a.wait=1)
elif [[ "$MODE" == fa* && -n "$MODE" ]]; then
    ARGS+=(a.wait=0)
else
    ARGS+=(a.wait=2)
fi
case "$MODE" in
    slow) N=1 ;;
    fast | faster)
        N=8
        ;;
    *) exit 1 ;;
esac
if [ "$N" -gt 4 ] && ! [ -z "$N" ]; then ARGS+=(a.many=True); fi
if (( N % 3 != 0 )); then ARGS+=(a.odd=True); fi
[ "$N" -lt 4 ] && ARGS+=(a.few=True)
for SIZE in 1 2; do
    run() {
        python x "${ARGS[@]}" a.n=$N a.size=$SIZE
    }
done
"""


def test_branches_are_those_that_the_values_of_the_script_choose() -> None:
    assert values(BRANCHES) == {"a.mode": "fast", "a.wait": 0, "a.many": True, "a.odd": True, "a.n": 8, "a.size": 1}


def test_the_first_branch_is_taken_where_the_machine_decides() -> None:
    branches = "case $D in\n gpu) N=1 ;;\n npu) N=2 ;;\nesac\nif [ -f /x ]; then M=3; else M=4; fi"
    assert values(f"D=${{D:-$(probe)}}\n{branches}\npython x a.n=$N a.m=$M") == {"a.n": 1, "a.m": 3}


@pytest.mark.parametrize(
    ("word", "named"), [("$(date +%s)", "$(date +%s)"), ("x_`id`", "`id`"), ("$2", "$2"), ("${1}/a", "${1}")]
)
def test_a_key_whose_value_the_script_does_not_say_is_named_with_it(word: str, named: str) -> None:
    found = read(f"N={word}\npython x a.b=1 a.c=$N")
    assert found.tree == {"a": {"b": 1}}
    assert list(found.without_value) == ["a.c"]
    assert named in found.without_value["a.c"]


def test_a_key_that_is_removed_is_named() -> None:
    assert read("python x a.b=1 ~a.c '~a.d=2'").without_value == {"a.c": REMOVED, "a.d": REMOVED}


def test_values_that_double_each_other_are_refused() -> None:
    doubled = "\n".join("A=$A$A" for _ in range(64))
    with pytest.raises(ConfigError, match="MiB"):
        read(f"A=aaaa\n{doubled}\npython x a.b=$A")


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert read(text)


QUOTES = ["'", '"', "\\", "`", "$A", "${A:-", "}", "$((", "))", "(", ")", "A=", "A+=("]
WORDS = [
    "a.b=1",
    " ",
    "\n",
    "if ",
    "then ",
    "fi",
    "case ",
    " in ",
    "esac",
    ";;",
    "[ ",
    " ]",
    "&&",
    "||",
    "|",
    "<<E",
    "do ",
    "done",
    "for ",
]


@given(st.lists(st.sampled_from(QUOTES + WORDS), max_size=40))
def test_any_mixture_of_signs_is_read_or_refused(signs: list[str]) -> None:
    with contextlib.suppress(ConfigError):
        assert read("".join(signs))
