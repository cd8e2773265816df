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
        ("A=1; cd / && A=2", 2),
        ("A=1; echo 'A=2' \"; A=3\" # A=4", 1),
        ("run() {\nA=1\n}", 1),
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


def test_a_value_is_split_where_it_stands_outside_quotes_and_not_where_it_is_assigned() -> None:
    assert values('B=(x y); A="${B[@]}"; C=$A\npython x a.b=$C a.c="$C"') == {"a.b": "x", "a.c": "x y"}


BRANCHES = """
N=8
ARGS=(a.kept=1)
if [ "$MODE" = slow ]; then
    N=1
    ARGS+=(a.wait=1)
    EXTRA="a.b=1 a.c=2"
    echo "M=1 is no assignment"
fi
case "$MODE" in fast) case $N in 8) SIZE=1 ;; esac ;; *) exit 1 ;; esac
[ "$N" -lt 4 ] && FEW=True
for M in 1 2; do python x a.loop=$M; done
L=2
python x "${ARGS[@]}" a.n=$N a.size=$SIZE a.few=$FEW a.l=$L $EXTRA
"""


def test_what_a_branch_or_a_loop_sets_is_named_with_its_line() -> None:
    found = read(BRANCHES)
    assert found.tree == {"a": {"kept": 1, "l": 2}}
    assert {key: reason.partition(",")[0] for key, reason in found.without_value.items()} == {
        "a.wait": "line 6 sets it under `if`",
        "a.n": "line 5 sets N under `if`",
        "a.size": "line 10 sets SIZE under `case`",
        "a.few": "line 11 sets FEW after `&&`",
        "a.loop": "line 12 sets it under `for`",
        "$EXTRA": "line 7 sets EXTRA under `if`",
    }


def test_a_value_that_a_branch_may_replace_is_not_known() -> None:
    found = read("B=(a.n=8)\nif x; then B+=(a.n=16); fi\npython x a.d=1 ${B[@]}")
    assert (found.tree, list(found.without_value)) == ({"a": {"d": 1}}, ["a.n"])


def test_an_array_that_a_branch_replaces_has_no_known_values() -> None:
    assert list(read("A=(a.b=1)\nif x; then A=(a.c=1); fi\npython x a.d=1 ${A[@]}").without_value) == ["a.b", "a.c"]


def test_the_command_that_bash_prints_is_read() -> None:
    assert values("+ python3 -m x 'a.b=[1, 2]' a.c=x") == {"a.b": [1, 2], "a.c": "x"}


@pytest.mark.parametrize(
    "word", ["$(date +%s)", "x_`id`", "$2", "${1}/a", "${B##*/}", "${B,,}", "${B:+-}", "$((B / 0))", "$((-7 / 2))", "$((2 ** 9))"]
)
def test_a_key_whose_value_the_script_does_not_say_is_named_with_its_line(word: str) -> None:
    found = read(f"B=Ab\nN={word}\npython x a.b=1 a.c=$N")
    assert found.tree == {"a": {"b": 1}}
    assert list(found.without_value) == ["a.c"]
    assert found.without_value["a.c"].startswith("line 2 ")
    assert "bash -x" in found.without_value["a.c"]


def test_a_key_that_is_removed_is_named() -> None:
    assert read("python x a.b=1 ~a.c '~a.d=2'").without_value == {"a.c": REMOVED, "a.d": REMOVED}


def test_values_that_double_each_other_are_refused() -> None:
    doubled = "\n".join("A=$A$A" for _ in range(64))
    with pytest.raises(ConfigError, match="more than 65536 characters"):
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
