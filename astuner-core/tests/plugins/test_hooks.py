from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import PluginError
from astuner.contract.hookspecs import SPECS
from astuner.contract.protocols import Candidate, Judge, RunInfo
from astuner.contract.schema import Episode, Group, Notice, Task, Unjudged, Verdict, WorkflowOutput
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.hooks import Hooks

Install = Callable[..., Path]

STRICT = """
class Strict:
    def compute_reward(self, workflow_task, workflow_output):
        return 1.0 if workflow_output.metadata["answer"] == workflow_task.task.metadata["answer"] else 0.0
"""


@pytest.fixture
def strict(install: Install) -> Candidate:
    """The judge of a third party."""
    install(
        "acme-judges",
        "1.2.0",
        files={"acme_judges/strict.py": STRICT},
        entry_points={"astuner.judges": {"strict": "acme_judges.strict:Strict"}},
    )
    return Catalog.discover().find("judge", "strict", config_dir=Path("/"), key="k")


def extend(install: Install, name: str, body: str, version: str = "2.0") -> None:
    """Install a distribution whose extension class has the given body."""
    indented = "\n".join(f"    {line}" for line in body.strip("\n").splitlines())
    source = f"from astuner import hookimpl\nheard = []\nclass Extension:\n{indented}\n"
    files = {f"{name.replace('-', '_')}.py": source}
    install(name, version, files=files, entry_points={"astuner.hooks": {name: f"{name.replace('-', '_')}:Extension"}})


def make_hooks(**given: Any) -> tuple[Hooks, list[str]]:
    said: list[str] = []
    return Hooks(Catalog.discover(), on_listener_error=said.append, **given), said


def group(*answers: str) -> Group:
    task = Task("1+1?", task_id="t", metadata={"answer": "2"})
    episodes = [
        Episode(id=f"e{i}", task=task, step=1, repeat=i, output=WorkflowOutput(metadata={"answer": answer} if answer else {}))
        for i, answer in enumerate(answers)
    ]
    return Group(task=task, step=1, split="train", episodes=tuple(episodes))


def test_every_hook_has_a_typed_method() -> None:
    names = {name.removeprefix("astuner_") for spec in SPECS for name in vars(spec) if name.startswith("astuner_")}
    assert names <= {name for name in vars(Hooks) if not name.startswith("_")}


def test_a_judge_of_a_third_party_is_found_and_judges(strict: Candidate, run_info: RunInfo) -> None:
    judge = make_hooks()[0].make_judge(strict, None, run_info)
    assert asyncio.run(judge.judge(group("2", "3"))) == [Verdict(1.0), Verdict(0.0)]


def test_a_judge_of_a_third_party_that_raises_is_blamed_for_that_episode(strict: Candidate, run_info: RunInfo) -> None:
    judge = make_hooks()[0].make_judge(strict, None, run_info)
    right, failed = asyncio.run(judge.judge(group("2", "")))
    assert right == Verdict(1.0)
    assert isinstance(failed, Unjudged)
    blame = "judge 'strict' from acme-judges 1.2.0 (acme_judges.strict:Strict) raised KeyError: 'answer'"
    place = "(acme_judges/strict.py:4 in compute_reward)"
    assert (failed.reason, failed.detail) == ("judge_error", f"{blame} {place}")


def test_core_makes_what_no_extension_claims(strict: Candidate, run_info: RunInfo) -> None:
    hooks, _ = make_hooks()
    hooks.make_judge(strict, None, run_info)
    assert hooks.provenance[0].row() == {
        "kind": "judge",
        "name": "strict",
        "target": "acme_judges.strict:Strict",
        "dist": "acme-judges",
        "version": "1.2.0",
        "made_by": "astuner-core",
        "wrapped_by": "",
    }


def test_an_extension_answers_in_place_of_core_and_is_recorded(install: Install, strict: Candidate, run_info: RunInfo) -> None:
    body = """
from astuner.episodes.judging.simple_judges import make_judge
@hookimpl(trylast=True)
def astuner_make_judge(self, candidate):
    return Extension.make_judge(lambda workflow_task, workflow_output: 0.5)
"""
    extend(install, "acme-stub", body)
    hooks, _ = make_hooks()
    judge = hooks.make_judge(strict, None, run_info)
    assert asyncio.run(judge.judge(group("2"))) == [Verdict(0.5)]
    assert hooks.provenance[0].made_by == "hook 'acme-stub' from acme-stub 2.0 (acme_stub:Extension)"


def test_an_extension_wraps_every_judge_and_is_recorded(install: Install, strict: Candidate, run_info: RunInfo) -> None:
    body = """
from astuner import Judge
from attrs import evolve
class Halved(Judge):
    def __init__(self, inner):
        self.inner = inner
    async def judge(self, group):
        return [type(v)(v.reward / 2) for v in await self.inner.judge(group)]
@hookimpl(wrapper=True)
def astuner_make_judge(self, candidate):
    return Extension.Halved((yield))
"""
    extend(install, "acme-halve", body)
    hooks, _ = make_hooks()
    judge = hooks.make_judge(strict, None, run_info)
    assert asyncio.run(judge.judge(group("2"))) == [Verdict(0.5)]
    recorded = hooks.provenance[0]
    assert recorded.made_by == "astuner-core"
    assert recorded.wrapped_by == ("hook 'acme-halve' from acme-halve 2.0 (acme_halve:Extension)",)


def test_a_deciding_hook_that_raises_stops_with_the_blame(install: Install, strict: Candidate, run_info: RunInfo) -> None:
    extend(install, "acme-boom", "@hookimpl\ndef astuner_make_judge(self):\n    raise RuntimeError('boom')")
    with pytest.raises(PluginError) as caught:
        make_hooks()[0].make_judge(strict, None, run_info)
    blame = "hook 'acme-boom' from acme-boom 2.0 (acme_boom:Extension) raised in astuner_make_judge: RuntimeError: boom"
    assert str(caught.value) == blame


def test_a_wrapper_that_raises_is_blamed_and_not_what_it_wraps(install: Install, strict: Candidate, run_info: RunInfo) -> None:
    body = "@hookimpl(wrapper=True)\ndef astuner_make_judge(self):\n    yield\n    raise ValueError('late')"
    extend(install, "acme-late", body)
    with pytest.raises(PluginError, match=r"^hook 'acme-late' from acme-late 2\.0 .* ValueError: late"):
        make_hooks()[0].make_judge(strict, None, run_info)


def test_a_broken_class_is_blamed_through_a_wrapper(install: Install, run_info: RunInfo) -> None:
    extend(install, "acme-through", "@hookimpl(wrapper=True)\ndef astuner_make_judge(self):\n    return (yield)")
    install("acme-judges", files={"acme_bad.py": "1 / 0"}, entry_points={"astuner.judges": {"bad": "acme_bad:Bad"}})
    bad = Catalog.discover().find("judge", "bad", config_dir=Path("/"), key="k")
    with pytest.raises(PluginError, match=r"^judge 'bad' from acme-judges 1\.0 \(acme_bad:Bad\): ZeroDivisionError"):
        make_hooks()[0].make_judge(bad, None, run_info)


def test_a_wrapper_that_loses_the_component_is_named(install: Install, strict: Candidate, run_info: RunInfo) -> None:
    extend(install, "acme-loser", "@hookimpl(wrapper=True)\ndef astuner_make_judge(self):\n    yield")
    with pytest.raises(PluginError, match=r"a wrapper returned None, one of hook 'acme-loser' from acme-loser 2\.0"):
        make_hooks()[0].make_judge(strict, None, run_info)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("@hookimpl\ndef astuner_step_finnished(self, report):\n    pass", "no hook 'astuner_step_finnished'. Did you mean "),
        ("@hookimpl\ndef astuner_step_finished(self, raport):\n    pass", "Argument(s) {'raport'} are declared in the hookimpl"),
        ("@hookimpl\ndef astuner_step_finished(self, report=None):\n    pass", "report must have no default value"),
        ("@hookimpl\ndef astuner_step_finished(self, *, report):\n    pass", "step_finished: report would never be filled"),
        ("@hookimpl\ndef astuner_step_finished(self, *args):\n    pass", "*args would never be filled"),
        ("@hookimpl\ndef astuner_step_finished(self, **kwargs):\n    pass", "**kwargs would never be filled"),
        ("@hookimpl\nasync def astuner_step_finished(self, report):\n    pass", "write `def`, not `async def`"),
        ("@hookimpl(wrapper=True)\ndef astuner_step_finished(self):\n    yield", "astuner_step_finished is an event"),
        ("@hookimpl(wrapper=True)\ndef astuner_make_judge(self):\n    pass", "a wrapper is a generator"),
        ("@hookimpl(hookwrapper=True)\ndef astuner_make_judge(self):\n    yield", "write wrapper=True"),
        ("def astuner_step_finished(self, report):\n    pass", "has no method marked @astuner.hookimpl"),
    ],
)
def test_a_hook_that_could_never_be_called_names_its_plugin(install: Install, method: str, words: str) -> None:
    extend(install, "acme-wrong", method)
    hooks, said = make_hooks()
    assert str(hooks.problems[0]).startswith("hook 'acme-wrong' from acme-wrong 2.0 (acme_wrong:Extension)")
    assert words in str(hooks.problems[0])
    assert said == [f"left out: {hooks.problems[0]}"]


def test_one_broken_extension_does_not_silence_another(install: Install) -> None:
    install("acme-broken", files={"acme_broken.py": "1 / 0"}, entry_points={"astuner.hooks": {"broken": "acme_broken:E"}})
    extend(install, "acme-works", "@hookimpl\ndef astuner_notice(self, notice):\n    heard.append(notice.text)")
    hooks, _ = make_hooks()
    hooks.notice(Notice(text="hello"))
    assert sys.modules["acme_works"].heard == ["hello"]
    assert [problem.message.split(":")[0] for problem in hooks.problems] == ["hook 'broken' from acme-broken 1.0 (acme_broken"]


def test_a_run_that_must_be_strict_refuses_what_was_left_out(install: Install) -> None:
    extend(install, "acme-wrong", "@hookimpl\ndef astuner_run_startet(self):\n    pass")
    with pytest.raises(PluginError, match="Did you mean 'astuner_run_started'"):
        make_hooks()[0].check_pending()


def test_a_listener_that_raises_is_named_once_and_the_rest_still_hear(install: Install) -> None:
    listen = "@hookimpl\ndef astuner_notice(self, notice):\n    heard.append(notice.text)"
    extend(install, "acme-a-hears", listen)
    extend(install, "acme-b-fails", "@hookimpl\ndef astuner_notice(self, notice):\n    raise KeyError(notice.text)")
    extend(install, "acme-c-hears", listen)
    hooks, said = make_hooks()
    hooks.notice(Notice(text="one"))
    hooks.notice(Notice(text="two"))
    assert [sys.modules[name].heard for name in ("acme_a_hears", "acme_c_hears")] == [["one", "two"], ["one", "two"]]
    blame = "hook 'acme-b-fails' from acme-b-fails 2.0 (acme_b_fails:Extension)"
    assert said == [f"{blame} raised in astuner_notice: KeyError: 'one'"]


def test_a_listener_that_asks_to_be_first_is_first(install: Install) -> None:
    body = "@hookimpl{}\ndef astuner_notice(self, notice):\n    import acme_a; acme_a.heard.append('{}')"
    extend(install, "acme-a", body.format("(tryfirst=True)", "a"))
    extend(install, "acme-b", body.format("", "b"))
    make_hooks()[0].notice(Notice(text="x"))
    assert sys.modules["acme_a"].heard == ["a", "b"]


def test_an_extension_may_implement_a_hook_twice(install: Install) -> None:
    body = """
@hookimpl
def astuner_notice(self, notice):
    heard.append("first")
@hookimpl(specname="astuner_notice")
def second(self, notice):
    heard.append("second")
"""
    extend(install, "acme-twice", body)
    make_hooks()[0].notice(Notice(text="x"))
    assert sorted(sys.modules["acme_twice"].heard) == ["first", "second"]


def test_extensions_that_are_equal_are_both_heard(install: Install) -> None:
    source = """
from astuner import hookimpl
from attrs import define
heard = []
@define
class Equal:
    @hookimpl
    def astuner_notice(self, notice):
        heard.append(notice.text)
"""
    entry_points = {"astuner.hooks": {"one": "acme_equal:Equal", "two": "acme_equal:Equal"}}
    install("acme-equal", files={"acme_equal.py": source}, entry_points=entry_points)
    make_hooks()[0].notice(Notice(text="x"))
    assert sys.modules["acme_equal"].heard == ["x", "x"]


def test_two_distributions_may_name_their_extensions_alike(install: Install) -> None:
    source = "from astuner import hookimpl\nheard = []\n@hookimpl\ndef astuner_notice(notice):\n    heard.append(notice.text)\n"
    for dist in ("acme", "bolt"):
        install(f"{dist}-h", files={f"{dist}_h.py": source}, entry_points={"astuner.hooks": {"audit": f"{dist}_h"}})
    hooks, _ = make_hooks()
    hooks.notice(Notice(text="x"))
    assert (sys.modules["acme_h"].heard, sys.modules["bolt_h"].heard) == (["x"], ["x"])


def logger(install: Install, methods: str) -> Candidate:
    source = f"from astuner import hookimpl\nheard = []\nclass Board:\n{methods}"
    install("acme-board", files={"acme_board.py": source}, entry_points={"astuner.loggers": {"board": "acme_board:Board"}})
    return Catalog.discover().find("logger", "board", config_dir=Path("/"), key="k")


def test_a_logger_with_a_marked_method_hears_that_event(install: Install, run_info: RunInfo) -> None:
    board = logger(install, "    @hookimpl\n    def astuner_checkpoint_saved(self, step, path):\n        heard.append(step)\n")
    hooks, _ = make_hooks()
    hooks.make_logger(board, None, run_info)
    hooks.checkpoint_saved(7, Path("c"))
    assert sys.modules["acme_board"].heard == [7]


def test_a_component_may_not_decide_about_others(install: Install, run_info: RunInfo) -> None:
    board = logger(install, "    @hookimpl\n    def astuner_make_judge(self, candidate):\n        return None\n")
    with pytest.raises(PluginError, match=r"logger 'board' from acme-board 1\.0 .*: a component may only listen"):
        make_hooks()[0].make_logger(board, None, run_info)


def test_a_tracker_is_made_anew_with_each_call(install: Install, run_info: RunInfo) -> None:
    install("acme-t", files={"acme_t.py": "class T:\n    pass\n"}, entry_points={"astuner.trackers": {"t": "acme_t:T"}})
    candidate = Catalog.discover().find("tracker", "t", config_dir=Path("/"), key="k")
    make = make_hooks()[0].make_tracker(candidate, None, run_info)
    assert make() is not make()


def test_an_engine_that_cannot_be_made_is_blamed_when_it_is_made(install: Install, run_info: RunInfo) -> None:
    source = "class E:\n    def __init__(self):\n        raise OSError('no device')\n"
    install("acme-e", "0.1", files={"acme_e.py": source}, entry_points={"astuner.engines": {"e": "acme_e:E"}})
    candidate = Catalog.discover().find("engine", "e", config_dir=Path("/"), key="k")
    make = make_hooks()[0].make_engine(candidate, None, run_info)
    with pytest.raises(PluginError, match=r"engine 'e' from acme-e 0\.1 \(acme_e:E\) could not be made: OSError: no device"):
        make()


WITH_OPTIONS = """
from attrs import frozen
@frozen(kw_only=True)
class Options:
    path: str = "audit.log"
def __init__(self, options):
    heard.append(options.path)
@hookimpl
def astuner_notice(self, notice):
    pass
"""


def test_an_extension_gets_its_options_from_the_configuration(install: Install) -> None:
    extend(install, "acme-audit", WITH_OPTIONS)
    make_hooks(options={"acme-audit": {"path": "other.log"}})
    assert sys.modules["acme_audit"].heard == ["other.log"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acme-audit": {"pth": "x"}}, "astuner.plugins.options.acme-audit.pth"),
        ({"acme-audti": {}}, "options.acme-audti: no such extension is installed and enabled. Did you mean 'acme-audit'?"),
    ],
)
def test_options_that_reach_nobody_are_named(install: Install, options: Mapping[str, Any], words: str) -> None:
    extend(install, "acme-audit", WITH_OPTIONS)
    assert words in str(make_hooks(options=options)[0].problems[0])


def test_calls_are_traced_when_the_environment_asks(
    strict: Candidate, run_info: RunInfo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASTUNER_TRACE_HOOKS", "1")
    make_hooks()[0].make_judge(strict, None, run_info)
    shown = capsys.readouterr().err
    assert "astuner_make_judge(candidate=" in shown
    assert "-> astuner-core" in shown


def test_a_whole_judge_is_made_as_it_is(install: Install, run_info: RunInfo) -> None:
    source = "from astuner import Judge\nclass Whole(Judge):\n    async def judge(self, group):\n        return []\n"
    install("acme-w", files={"acme_w.py": source}, entry_points={"astuner.judges": {"whole": "acme_w:Whole"}})
    candidate = Catalog.discover().find("judge", "whole", config_dir=Path("/"), key="k")
    made: Judge = make_hooks()[0].make_judge(candidate, None, run_info)
    assert type(made).__name__ == "Whole"
