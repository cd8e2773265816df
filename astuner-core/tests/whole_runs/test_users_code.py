"""Whatever the user's code is like, `config validate`, `run` and `eval` answer in a sentence, without a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from attrs import field, frozen
from forked_cli import Answered, ForkedCli, fork_server
from harness import Cli

from astuner_devkit.project import write_tokenizer

ASYNC = "class Agent:\n    async def execute(self, workflow_task, tuner): ...\n"
YAML = """\
astuner:
  model: {path: ./model}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  rollout: {name: scripted, scripted: {replies: [hi]}, user_workflow: "SPEC"}
  backbone: debug
"""


@frozen(kw_only=True)
class Code:
    """What a user wrote, and what the answer says."""

    name: str
    source: str | bytes = ASYNC
    """Of `agent.py`."""
    spec: str = "./agent.py:Agent"
    says: tuple[str, ...] = ()
    """Parts of one line of the answer; none where the code is fine."""
    files: Mapping[str, str | bytes] = field(factory=dict)
    """Further files."""
    links: Mapping[str, str] = field(factory=dict)
    """Symbolic links, and where they point."""


KEY = "project.yaml:4: astuner.rollout.user_workflow: "
SYNC = "class Agent:\n    def execute(self, workflow_task, tuner):\n        return None\n"
CODES = [
    # What works
    Code(name="a class"),
    Code(name="a function", source="async def Agent(task, model): ..."),
    Code(name="a synchronous execute", source=SYNC),
    Code(name="a synchronous execute of a base class", source=f"{SYNC.replace('Agent', 'Base')}class Agent(Base): ...\n"),
    Code(name="a synchronous function", source="def Agent(task, model): ..."),
    Code(
        name="folders without __init__.py",
        spec="tutorial.example_x.agents->Agent",
        files={
            "tutorial/example_x/agents.py": f"from tutorial.example_x.prompts import HELLO\n{ASYNC}",
            "tutorial/example_x/prompts.py": "HELLO = 'hello'",
        },
    ),
    Code(
        name="a package with a folder without __init__.py",
        spec="tutorial.example_x.agents->Agent",
        files={"tutorial/__init__.py": "", "tutorial/example_x/agents.py": ASYNC},
    ),
    Code(
        name="a folder without __init__.py that holds a package",
        spec="tutorial.example_x.agents:Agent",
        files={"tutorial/example_x/__init__.py": "", "tutorial/example_x/agents.py": ASYNC},
    ),
    Code(name="a file with a byte order mark", source=b"\xef\xbb\xbf" + ASYNC.encode()),
    Code(name="latin-1 that says so", source="# coding: latin-1\nNAME = 'M\xfcller'\n".encode("latin-1") + ASYNC.encode()),
    Code(name="a module that prints", source=f"print('hello')\n{ASYNC}"),
    Code(name="targets as a tuple", source=f"{ASYNC}    trainable_targets = ('solver',)\n"),
    Code(name="no targets", source=f"{ASYNC}    trainable_targets = None\n"),
    Code(
        name="execute behind a decorator that keeps its name",
        source="from functools import wraps\ndef same(f):\n    @wraps(f)\n    def call(*a): return f(*a)\n    return call\n"
        "class Agent:\n    @same\n    async def execute(self, workflow_task, tuner): ...\n",
    ),
    Code(
        name="execute is an object that is called",
        source="class Play:\n    async def __call__(self, workflow_task, tuner): ...\nclass Agent:\n    execute = Play()\n",
    ),
    # Imports that end badly
    Code(name="an import that raises", source="{}['x']", says=("agent.py:Agent", "KeyError: 'x'", "agent.py:1")),
    Code(name="an import that exits", source="import sys\nsys.exit('no GPU')", says=("SystemExit: no GPU", "agent.py:2")),
    Code(name="an import that raises GeneratorExit", source="raise GeneratorExit", says=("GeneratorExit",)),
    Code(
        name="an import that raises CancelledError",
        source="import asyncio\nraise asyncio.CancelledError",
        says=("CancelledError",),
    ),
    Code(name="an error of its own kind", source="class E(BaseException): ...\nraise E('odd')", says=("E: odd",)),
    Code(
        name="an error without a text",
        source="class E(Exception):\n    def __str__(self): raise self\nraise E",
        says=("E: ", "agent.py:3"),
    ),
    Code(name="a package that is not installed", source="import not_here", says=("No module named 'not_here'", "agent.py:1")),
    Code(
        name="an error in another file of the user",
        source=f"import helper\n{ASYNC}",
        files={"helper.py": "\n\n1 / 0"},
        says=("ZeroDivisionError", "helper.py:3"),
    ),
    Code(name="a syntax error", source="class Agent(:", says=("agent.py:1", "is not valid Python")),
    Code(name="a syntax error of the compiler", source=f"{ASYNC}return 1\n", says=("agent.py:3", "SyntaxError")),
    Code(
        name="a syntax error in another file",
        source=f"import helper\n{ASYNC}",
        files={"helper.py": "x = = 1"},
        says=("helper.py:1", "SyntaxError"),
    ),
    Code(name="indentation", source="class Agent:\n  x = 1\n    y = 2\n", says=("agent.py:3", "is not valid Python")),
    Code(
        name="latin-1 that does not say so", source="N = 'M\xfcller'\n".encode("latin-1"), says=("agent.py", "not valid Python")
    ),
    Code(name="UTF-16", source=ASYNC.encode("utf-16"), says=("agent.py", "not valid Python")),
    Code(name="zero bytes", source=b"\0" * 64, says=("agent.py", "not valid Python")),
    Code(name="ten thousand brackets", source="(" * 10_000 + ")" * 10_000, says=("agent.py", "not valid Python")),
    Code(name="a very long sum", source="x = " + "+".join("1" * 20_000) + f"\n{ASYNC}", says=("agent.py",)),
    Code(
        name="circular imports",
        source=f"from helper import HELP\n{ASYNC}",
        files={"helper.py": "from agent import Agent\nHELP = 1"},
        says=("ImportError", "circular import"),
    ),
    Code(name="a module that asks", source=f"input('name? ')\n{ASYNC}", says=("EOFError", "agent.py:1")),
    Code(name="endless recursion", source="def f(): f()\nf()", says=("RecursionError", "agent.py:1")),
    Code(
        name="a module that gives nothing",
        source="# Agent\ndef __getattr__(name): raise RuntimeError('lazy')",
        says=("RuntimeError: lazy", "agent.py:2"),
    ),
    Code(name="a module that replaces itself", source="import sys\nsys.modules[__name__] = None", says=("agent.py",)),
    # Files that are not what they should be
    Code(name="a folder in place of a file", files={"x.py/y.txt": ""}, spec="./x.py:Agent", says=("x.py is a directory",)),
    Code(name="a link to itself", links={"x.py": "x.py"}, spec="./x.py:Agent", says=("x.py cannot be read",)),
    Code(name="a link to nothing", links={"x.py": "gone.py"}, spec="./x.py:Agent", says=("there is no file",)),
    Code(name="a file that cannot be read", links={"x.py": "/proc/1/mem"}, spec="./x.py:Agent", says=("cannot be read",)),
    Code(name="a module that cannot be read", links={"x.py": "/proc/1/mem"}, spec="x:Agent", says=("cannot be read",)),
    Code(name="a device", links={"x.py": "/dev/null"}, spec="./x.py:Agent", says=("is not a regular file",)),
    Code(name="a zero byte in the name", spec="./ag\\0ent.py:Agent", says=("is not the name of a file", "null")),
    Code(name="a very long name", spec=f"./{'a' * 5000}.py:Agent", says=("File name too long",)),
    Code(name="a package in place of a module", spec="tutorial:Agent", files={"tutorial/a.py": ""}, says=("tutorial", "folder")),
    Code(name="a module inside a module", spec="agent.part:Agent", says=("agent.part", "is not a package")),
    Code(name="a relative module", spec="..agent:Agent", says=("neither a module nor",)),
    # Classes that are not what they should be
    Code(name="an execute that yields", source=ASYNC.replace("...", "yield 1"), says=("agent.py:2", "yield")),
    Code(name="a static execute", source=SYNC.replace("    def", "    @staticmethod\n    def"), says=("`async def execute(",)),
    Code(
        name="an execute without a tuner",
        source="class Agent:\n    def execute(self, workflow_task): ...",
        says=("agent.py:2", "a task and a tuner", "`async def execute("),
    ),
    Code(name="a function of other arguments", source="async def Agent(x): ...", says=("takes (x)", "`task` and `model`")),
    Code(
        name="a class without execute",
        source="class Agent: ...",
        says=("without `execute`", "`async def execute(self, workflow_task, tuner)`"),
    ),
    Code(
        name="a workflow without execute",
        source="from astuner import Workflow\nclass Agent(Workflow): ...",
        says=("abstract", "execute"),
    ),
    Code(
        name="a constructor with arguments",
        source=f"{ASYNC}    def __init__(self, config): ...\n",
        says=("agent.py:3", "without arguments", "config"),
    ),
    Code(name="a number", source="Agent = 3", says=("is 3",)),
    Code(
        name="an object that cannot be shown", source="class B:\n    def __repr__(self): raise OSError\nAgent = B()", says=("B",)
    ),
    Code(
        name="a metaclass that raises",
        source="class M(type):\n    def __getattr__(cls, name): raise RuntimeError('no ' + name)\n"
        "class Agent(metaclass=M):\n    async def execute(self, workflow_task, tuner): ...\n",
        says=("RuntimeError: no ", "agent.py:2"),
    ),
    Code(
        name="a metaclass that raises for everything",
        source="class M(type):\n    def __getattribute__(cls, name): raise KeyError(name)\nclass Agent(metaclass=M): ...\n",
        says=("KeyError", "agent.py"),
    ),
    Code(
        name="targets of pydantic",
        source="class FieldInfo:\n    def __init__(self, default): self.default = default\n"
        f"def Field(default): return FieldInfo(default)\n{ASYNC}    trainable_targets: list = Field(default=['solver'])\n",
        says=("Agent.trainable_targets", "FieldInfo", "['solver']"),
    ),
    Code(name="targets as a text", source=f"{ASYNC}    trainable_targets = 'solver'\n", says=("'solver'", "['solver']")),
    Code(name="targets that are numbers", source=f"{ASYNC}    trainable_targets = [1]\n", says=("trainable_targets", "[1]")),
    Code(name="targets as a number", source=f"{ASYNC}    trainable_targets = 3\n", says=("trainable_targets", "3")),
    Code(
        name="targets as a property",
        source=f"{ASYNC}    @property\n    def trainable_targets(self): return ['x']\n",
        says=("trainable_targets", "property"),
    ),
    Code(
        name="targets that end badly",
        source=f"class Bad(list):\n    def __iter__(self): raise OSError('gone')\n{ASYNC}    trainable_targets = Bad()\n",
        says=("OSError: gone", "agent.py:2"),
    ),
]


@pytest.fixture(scope="module")
def forked() -> Iterator[ForkedCli]:
    with fork_server() as cli:
        yield cli


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    write_tokenizer(directory / "model")
    (directory / "tasks.jsonl").write_text('{"main_query": "1 + 1"}\n', encoding="utf-8")
    return directory


def write(code: Code, project: Path) -> None:
    ends_badly = isinstance(code.source, str) and "Agent" not in code.source
    source = f"{code.source}\n{ASYNC}" if ends_badly else code.source
    for name, content in {"agent.py": source, **code.files}.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    for name, target in code.links.items():
        (project / name).symlink_to(target)
    (project / "project.yaml").write_text(YAML.replace("SPEC", code.spec), encoding="utf-8")


def ask(forked: ForkedCli, project: Path, *command: str) -> Answered:
    answered = forked.run([*command, "--conf", "project.yaml"], cwd=project)
    assert "Traceback" not in answered.said, answered.said
    return answered


def has_line(text: str, parts: tuple[str, ...]) -> bool:
    return any(all(part in line for part in parts) for line in text.splitlines())


def test_there_are_at_least_thirty_ways_to_write_bad_code() -> None:
    assert len([code for code in CODES if code.says]) >= 30
    assert len({code.name for code in CODES}) == len(CODES)


@pytest.mark.parametrize("code", [code for code in CODES if code.says], ids=lambda code: code.name)
def test_bad_code_is_answered_with_its_place(code: Code, project: Path, forked: ForkedCli) -> None:
    write(code, project)
    validated = ask(forked, project, "config", "validate")
    assert validated.code == 2, validated.said
    assert has_line(validated.said, (KEY, *code.says)), validated.said
    ran = ask(forked, project, "run")
    assert (ran.code, ran.said) == (2, validated.said)
    assert not (project / "launcher_record").exists()


@pytest.mark.parametrize("code", [code for code in CODES if not code.says], ids=lambda code: code.name)
def test_good_code_is_valid(code: Code, project: Path, forked: ForkedCli) -> None:
    write(code, project)
    answered = ask(forked, project, "config", "validate")
    assert (answered.code, answered.said.splitlines()[-1]) == (0, "project.yaml: valid"), answered.said


PLAYED = """
from astuner import Workflow, WorkflowOutput
from tutorial.example_x.prompts import HELLO

class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        return WorkflowOutput(reward=1.0, metadata={"final_answer": HELLO})
"""


@pytest.mark.parametrize("inside", [False, True], ids=["beside the package", "in the package"])
def test_folders_without_init_are_played_whether_the_yaml_is_beside_or_in_them(inside: bool, project: Path, cli: Cli) -> None:
    spec = "tutorial.example_x.agents->Agent"
    write(
        Code(name="", spec=spec, files={"tutorial/example_x/agents.py": PLAYED, "tutorial/example_x/prompts.py": "HELLO = 1"}),
        project,
    )
    conf = Path("project.yaml")
    if inside:
        conf = Path("tutorial/example_x/project.yaml")
        text = YAML.replace("SPEC", spec).replace("./model", "../../model").replace("tasks.jsonl", "../../tasks.jsonl")
        (project / conf).write_text(text, encoding="utf-8")
    done = cli("run", "--conf", str(conf), cwd=project)
    assert done.returncode == 0, done.stderr


METHODS = "    async def {}(self, *a): ...\n"
ENVIRONMENT = "class World:\n    def __init__(self, task): ...\n" + "".join(map(METHODS.format, ["reset", "evaluate", "close"]))
OTHERS = {
    "environment": ("  environment: {environment_type: './world.py:World'}\n", "astuner.environment.environment_type"),
    "judge": ("  task_judge: {judge_protocol: './world.py:World'}\n", "astuner.task_judge.judge_protocol"),
}


@pytest.mark.parametrize(
    ("kind", "source", "says"),
    [
        ("environment", f"{ENVIRONMENT}    def step(self, action): ...\n", ("step (world.py:6)", "`async def`")),
        ("environment", "1 / 0\nclass World: ...\n", ("ZeroDivisionError", "world.py:1")),
        ("judge", "class World:\n    def judge(self, group): ...\n", ("judge (world.py:2)", "`async def`")),
        ("judge", "import sys\nsys.exit(3)\nclass World: ...\n", ("SystemExit: 3", "world.py:2")),
        (
            "judge",
            "class M(type):\n    def __getattr__(cls, name): raise OSError(name)\nclass World(metaclass=M): ...\n",
            ("OSError", "world.py:2"),
        ),
    ],
)
def test_other_code_of_the_user_is_answered_too_and_beside_the_workflow(
    kind: str, source: str, says: tuple[str, ...], project: Path, forked: ForkedCli
) -> None:
    more, key = OTHERS[kind]
    write(Code(name="", source="async def Agent(x): ...", files={"world.py": source}), project)
    conf = project / "project.yaml"
    conf.write_text(conf.read_text(encoding="utf-8") + more, encoding="utf-8")
    answered = ask(forked, project, "config", "validate")
    assert answered.code == 2, answered.said
    assert has_line(answered.said, (f"project.yaml:6: {key}: ", *says)), answered.said
    assert has_line(answered.said, (KEY, "takes (x)")), answered.said


def test_what_the_users_code_prints_is_not_in_the_json_document(project: Path, cli: Cli) -> None:
    write(Code(name="", source=f"print('hello')\n{ASYNC}"), project)
    done = cli("config", "validate", "--conf", "project.yaml", "--json", cwd=project)
    assert json.loads(done.stdout), done.stderr
