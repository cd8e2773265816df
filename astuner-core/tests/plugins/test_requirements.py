from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import distribution
from pathlib import Path

from astuner.settings.plugins.requirements import Facts, Installed

Install = Callable[..., Path]


def rewrite_metadata(site: Path, text: str) -> None:
    (site / "acme-1.0.dist-info" / "METADATA").write_text(text)


def test_a_readme_that_looks_like_headers_is_not_read(install: Install) -> None:
    site = install("acme", requires=())
    rewrite_metadata(site, "Name: acme\nVersion: 1.0\nRequires-Dist: acme-one\n\nRequires-Dist: acme-two\nProvides-Extra: fast\n")
    facts = Facts(distribution("acme"))
    assert [requirement.name for requirement in facts.list_requirements([""])] == ["acme-one"]
    assert facts.extras == frozenset()


def test_a_folded_header_is_one(install: Install) -> None:
    site = install("acme", requires=())
    rewrite_metadata(site, "Name: acme\nVersion: 1.0\nrequires-dist: acme-one>=1,\n  <2\nProvides-Extra: Fast_One\n")
    facts = Facts(distribution("acme"))
    assert [str(requirement.specifier) for requirement in facts.list_requirements([""])] == ["<2,>=1"]
    assert facts.extras == {"fast-one"}


def test_the_metadata_is_that_of_the_standard_library(install: Install) -> None:
    install("acme", "2.1.0", requires=["acme-one>=1", "acme-two; extra == 'fast'"])
    facts, standard = Facts(distribution("acme")), distribution("acme")
    assert (facts.name, facts.version) == (standard.name, standard.version)
    assert [str(requirement) for requirement in facts.list_requirements(["", "fast"])] == [
        "acme-one>=1",
        'acme-two; extra == "fast"',
    ]


def test_an_older_format_is_read_too(install: Install) -> None:
    site = install("acme")
    egg = site / "bolt-1.0.egg-info"
    egg.mkdir()
    (egg / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: bolt\nVersion: 1.0\nProvides-Extra: fast\n")
    (egg / "requires.txt").write_text("acme-absent>=2\n\n[fast]\nacme-other\n")
    facts = Facts(distribution("bolt"))
    assert Installed().find_unmet(facts, ("fast",)) == ("acme-absent>=2", "acme-other")
    assert (facts.name, facts.version) == ("bolt", "1.0")


def test_what_a_distribution_works_without_is_not_missing(install: Install) -> None:
    site = install("acme", requires=["Acme_Gpu>=1", "acme-one"])
    (site / "acme-1.0.dist-info" / "entry_points.txt").write_text("[astuner.works_without]\nacme-gpu = acme_gpu\n")
    assert Installed().find_unmet(Facts(distribution("acme"))) == ("acme-one",)


def test_another_version_of_what_it_works_without_is(install: Install) -> None:
    site = install("acme", requires=["acme-gpu>=2"])
    (site / "acme-1.0.dist-info" / "entry_points.txt").write_text("[astuner.works_without]\nacme-gpu = acme_gpu\n")
    install("acme-gpu", "1.5", requires=())
    assert Installed().find_unmet(Facts(distribution("acme"))) == ("acme-gpu>=2 (1.5 is installed)",)
