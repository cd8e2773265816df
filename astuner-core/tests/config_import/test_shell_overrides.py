"""The keys that a shell script sets on a command line."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.config_import.shell_overrides import read_shell_overrides
from astuner.errors import ConfigError

SCRIPT = r"""
set -x
# trainer.comment=1
MODEL=org/name
BATCH=${BATCH:-64}
export NAME="a b"
FLAGS=(
    data.flag=True
)
python3 -m trainer.main \
    data.files="['/d/a.parquet']" \
    data.batch=$BATCH \
    +model.path=${MODEL} ++model.extra.deep=null \
    optim.lr=1e-6 run.name="$NAME" run.home=$HOME/data \
    trainer.logger=['console','wandb'] "${FLAGS[@]}" $@
"""


def test_a_script_gives_a_tree_of_values() -> None:
    assert read_shell_overrides(SCRIPT, Path("run.sh")) == {
        "data": {"flag": True, "files": ["/d/a.parquet"], "batch": 64},
        "model": {"path": "org/name", "extra": {"deep": None}},
        "optim": {"lr": 1e-6},
        "run": {"name": "a b", "home": "${oc.env:HOME}/data"},
        "trainer": {"logger": ["console", "wandb"]},
    }


def test_a_script_without_keys_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"section\.key=value"):
        read_shell_overrides("echo hello", Path("run.sh"))


def test_an_open_quote_is_a_problem_of_the_file() -> None:
    with pytest.raises(ConfigError, match="not a shell script that can be read"):
        read_shell_overrides("python x a.b='1", Path("run.sh"))


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert read_shell_overrides(text, Path("run.sh"))
