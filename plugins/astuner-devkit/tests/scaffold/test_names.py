from __future__ import annotations

import pytest

from astuner.contract.errors import UsageError
from astuner_devkit.scaffold.kinds import SCAFFOLDS, find_scaffolded_kind
from astuner_devkit.scaffold.names import LONGEST, choose_names


def test_the_component_is_called_like_its_distribution() -> None:
    names = choose_names("judge", "acme-strict-judge", None)
    assert (names.name, names.module, names.component) == ("acme_strict_judge", "acme_strict_judge", "AcmeStrictJudge")


def test_a_leading_astuner_is_left_out_of_the_name_and_kept_in_the_module() -> None:
    names = choose_names("judge", "astuner-Strict.v2", None)
    assert (names.dist, names.name, names.module) == ("astuner-Strict.v2", "strict_v2", "astuner_strict_v2")


def test_a_chosen_name_names_the_class_too() -> None:
    names = choose_names("reader", "acme-data", "tables")
    assert (names.name, names.module, names.component) == ("tables", "acme_data", "TablesReader")


@pytest.mark.parametrize(
    ("kind", "name", "component"),
    [("judge", "judge", "JudgeJudge"), ("judge", "none", "NoneJudge"), ("hook", "timing", "TimingHooks")],
)
def test_the_class_never_hides_what_its_module_imports(kind: str, name: str, component: str) -> None:
    assert choose_names(kind, "acme-x", name).component == component


@pytest.mark.parametrize(
    ("dist", "said"),
    [
        ("acme judge", "DIST 'acme judge': a distribution is named with letters, digits, '-', '_' and '.'"),
        ("-acme", "Did you mean 'acme'?"),
        ("", "DIST '': a distribution is named with"),
        ("../acme", "DIST '../acme'"),
        ("3d-judge", "its module would be called '3d_judge', which cannot be imported. Did you mean 'acme-3d-judge'?"),
        ("class", "its module would be called 'class', which cannot be imported"),
        ("astuner-core", "is a distribution of astuner itself"),
        ("Astuner_Judges", "is a distribution of astuner itself"),
        ("astuner", "is a distribution of astuner itself"),
        ("json", "would hide 'json' of the standard library. Did you mean 'acme-json'?"),
        ("click", "its module 'click' is installed already, by another package. Did you mean 'acme-click'?"),
        ("a" * (LONGEST + 1), f"has {LONGEST + 1} characters; take at most {LONGEST}"),
    ],
)
def test_a_distribution_that_cannot_work_is_refused(dist: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose_names("logger", dist, "fine")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("judge", "Strict Judge", "--name 'Strict Judge': is written with lower-case letters, digits and '_', and begins with"),
        ("judge", "Strict Judge", "Did you mean 'strict_judge'?"),
        ("judge", "a/b", "Did you mean 'a_b'?"),
        ("judge", "", "--name ''"),
        ("tracker", "timeline", "the name 'timeline': astuner-core has a tracker of that name"),
        ("command", "run", "`astuner run` is a command of astuner-core"),
        ("judge", "math", "is the name of a judge of astuner-judges"),
        ("judge", "judges", "`astuner.task_judge.judges` is a key already, so it could have no options"),
        ("judge", "customized_protocol", "`astuner.task_judge.customized_protocol` is a key already"),
        ("engine", "temperature", "`astuner.rollout.temperature` is a key already"),
        ("engine", "auto", "`astuner.rollout.auto` is a key already"),
        ("environment", "no_env", "`astuner.environment.no_env` is a key already"),
        ("environment", "env_action_preference", "`astuner.environment.env_action_preference` is a key already"),
        ("reader", "type", "Did you mean 'acme_type'?"),
        ("logger", "l" * (LONGEST + 1), f"take at most {LONGEST}"),
    ],
)
def test_a_name_that_cannot_work_is_refused(kind: str, name: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        choose_names(kind, "acme-x", name)
    assert said in str(refused.value)


def test_a_name_made_from_the_distribution_is_refused_with_the_way_out() -> None:
    with pytest.raises(UsageError, match=r"the name 'timeline': astuner-core has a tracker .* Choose another one with --name\."):
        choose_names("tracker", "astuner-timeline", None)


def test_a_name_that_means_something_for_another_kind_is_free() -> None:
    assert choose_names("logger", "acme-x", "timeline").name == "timeline"


def test_a_name_made_from_the_distribution_is_held_to_the_rules_too() -> None:
    with pytest.raises(UsageError, match=r"the name '3d', derived from 'astuner-3d': .* Choose one with --name"):
        choose_names("judge", "astuner-3d", None)


@pytest.mark.parametrize("kind", SCAFFOLDS)
def test_a_kind_is_understood_in_the_singular_and_the_plural(kind: str) -> None:
    assert (find_scaffolded_kind(kind), find_scaffolded_kind(f"{kind}s")) == (kind, kind)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("juge", "no kind 'juge'; there are: reader, judge, tracker, "),
        ("juge", "Did you mean 'judge'?"),
        ("workflow", "there is no scaffold for a workflow; there are: reader, "),
    ],
)
def test_any_other_kind_is_refused_with_those_that_are(word: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        find_scaffolded_kind(word)
    assert said in str(refused.value)
