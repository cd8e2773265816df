"""Extensions in a run: misspelt, failing, traced, and named."""

from __future__ import annotations

import json
import re

from environments import Environment, Wheel
from sources import JUDGE, LISTENER, MISSPELT, RAISING_DECISION, RAISING_LISTENER

AUDIT = {"astuner.hooks": {"audit": "acme_audit:Audit"}}


def test_a_misspelt_hook_is_no_trouble_when_listing_and_refused_in_a_run(environment: Environment, wheel: Wheel) -> None:
    environment.install(wheel("acme-audit", "0.3", AUDIT, files={"acme_audit.py": MISSPELT}))
    assert [row["name"] for row in environment.listed()] == ["audit"]
    refused = environment.run(environment.project())
    assert refused.returncode == 1
    assert "hook 'audit' from acme-audit 0.3 (acme_audit:Audit): there is no hook 'astuner_episode_finishd'" in refused.stderr
    assert "Did you mean 'astuner_episode_finished'?" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_listener_that_raises_is_named_once_and_the_others_hear(environment: Environment, wheel: Wheel) -> None:
    loud = wheel("acme-loud", "1.0", {"astuner.hooks": {"loud": "acme_loud:Loud"}}, files={"acme_loud.py": RAISING_LISTENER})
    audit = wheel("acme-audit", "0.3", AUDIT, files={"acme_audit.py": LISTENER})
    # One before and one after it in the order of calls.
    late = wheel("bolt-audit", "0.4", {"astuner.hooks": {"zeal": "bolt_audit:Audit"}}, files={"bolt_audit.py": LISTENER})
    environment.install(loud, audit, late)
    finished = environment.run(environment.project())
    assert finished.returncode == 0, finished.stderr
    blame = "hook 'loud' from acme-loud 1.0 (acme_loud:Loud) raised in astuner_episode_finished: KeyError: 'channel'"
    assert finished.stderr.count(blame) == 1
    assert [finished.stderr.count(f"heard sum-{number}") for number in range(3)] == [2, 2, 2]


def test_a_deciding_hook_that_raises_stops_the_run_with_the_blame(environment: Environment, wheel: Wheel) -> None:
    decide = wheel("acme-keys", "2.0", {"astuner.hooks": {"keys": "acme_keys:Decide"}}, files={"acme_keys.py": RAISING_DECISION})
    judge = wheel("acme-judges", "1.2.0", {"astuner.judges": {"strict": "acme_judges:Strict"}}, files={"acme_judges.py": JUDGE})
    environment.install(decide, judge)
    failed = environment.run(environment.project("strict"))
    assert failed.returncode == 1
    blame = "hook 'keys' from acme-keys 2.0 (acme_keys:Decide) raised in astuner_make_judge: RuntimeError: no licence"
    assert failed.stderr.splitlines()[-1] == f"error: {blame}"


def test_an_extension_can_be_disabled_by_its_distribution(environment: Environment, wheel: Wheel) -> None:
    environment.install(wheel("acme-audit", "0.3", AUDIT, files={"acme_audit.py": MISSPELT}))
    finished = environment.run(environment.project(settings={"plugins": {"disabled": ["acme-audit"]}}))
    assert finished.returncode == 0, finished.stderr


def test_tracing_shows_each_call_with_who_was_asked_and_the_outcome(environment: Environment, wheel: Wheel) -> None:
    audit = wheel("acme-audit", "0.3", AUDIT, files={"acme_audit.py": LISTENER})
    judge = wheel("acme-judges", "1.2.0", {"astuner.judges": {"strict": "acme_judges:Strict"}}, files={"acme_judges.py": JUDGE})
    environment.install(audit, judge)
    conf = environment.project("strict")
    finished = environment.run(conf, ASTUNER_TRACE_HOOKS="1")
    lines = finished.stderr.splitlines()
    (asked,) = [line for line in lines if line.startswith("astuner_make_judge(")]
    assert asked.endswith(") -> astuner-core")
    (outcome,) = [line for line in lines if line.startswith("astuner_make_judge = ")]
    assert outcome.startswith("astuner_make_judge = <astuner.")
    heard = [line for line in lines if line.startswith("astuner_episode_finished(")]
    assert len(heard) == 3
    assert all("-> hook 'audit' from acme-audit 0.3 (acme_audit:Audit)" in line for line in heard)


def test_nothing_is_traced_unasked(environment: Environment, wheel: Wheel) -> None:
    environment.install(wheel("acme-audit", "0.3", AUDIT, files={"acme_audit.py": LISTENER}))
    assert "astuner_episode_finished(" not in environment.run(environment.project()).stderr


def test_the_header_and_run_json_name_every_plugin_in_use_with_its_version(environment: Environment, wheel: Wheel) -> None:
    audit = wheel("acme-audit", "0.3", AUDIT, files={"acme_audit.py": LISTENER})
    judge = wheel("acme-judges", "1.2.0", {"astuner.judges": {"strict": "acme_judges:Strict"}}, files={"acme_judges.py": JUDGE})
    unused = wheel("bolt-judges", "9.9", {"astuner.judges": {"other": "bolt_judges:Strict"}}, files={"bolt_judges.py": JUDGE})
    environment.install(audit, judge, unused)
    conf = environment.project("strict")
    finished = environment.run(conf)
    header = "; plugins: judge strict (acme-judges 1.2.0), hook audit (acme-audit 0.3)"
    assert finished.stderr.splitlines()[0].endswith(header)
    assert "astuner-core 0.2.0" in finished.stderr.splitlines()[0]
    written = json.loads((conf.parent / "launcher_record" / "project.debug" / "run.json").read_text())
    used = {(row["kind"], row["name"], row["distribution"], row["version"]) for row in written["plugins"]}
    assert {("judge", "strict", "acme-judges", "1.2.0"), ("hook", "audit", "acme-audit", "0.3")} <= used
    assert "bolt-judges" not in {distribution for _, _, distribution, _ in used}
    assert written["versions"]["astuner-core"].startswith("0.")


def test_the_header_names_what_is_given_by_its_path_and_nothing_of_core(environment: Environment) -> None:
    conf = environment.project("./judge.py:Strict")
    (conf.parent / "judge.py").write_text(JUDGE)
    header = environment.run(conf).stderr.splitlines()[0]
    assert re.fullmatch(r"info: astuner-core \S+; plugins: judge \./judge\.py:Strict", header)
