"""The support table names the versions that tests run with."""

from __future__ import annotations

import re

import pytest

from tests.charts.render import render
from tests.controlplane.binaries import default_kubernetes, known_kubernetes
from tests.controlplane.helm import HELM_3, HELM_4
from tests.tidy.dependency_locks import supported_pythons
from tests.tidy.source_tree import ROOT

PAGE = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """Return the text below a heading."""
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_tried_kubernetes_is_the_pinned_one() -> None:
    version = default_kubernetes()
    assert f"| {version[1:].rpartition('.')[0]} | {version}: the whole suite" in PAGE


@pytest.mark.parametrize("version", known_kubernetes())
def test_a_version_that_can_be_run_is_named(version: str) -> None:
    """With how it was tried, or as one to try."""
    assert version.removeprefix("v") in section("Kubernetes")


def rendered_minors() -> list[int]:
    """Return the minor versions that the table says the chart is rendered for."""
    row = re.search(
        r"^\| 1\.(\d+) to 1\.(\d+)((?:, 1\.\d+)*) \| the chart is rendered", PAGE, re.MULTILINE
    )
    assert row is not None
    others = re.findall(r"1\.(\d+)", row[3])
    return [*range(int(row[1]), int(row[2]) + 1), *map(int, others)]


@pytest.mark.parametrize("minor", rendered_minors())
def test_the_chart_is_rendered_for_every_version_of_the_table(minor: int) -> None:
    """Refused is what a version lacks, so a chart that asked for too much would fail here."""
    objects = render(kube_version=f"1.{minor}.0")
    kinds = [each["kind"] for each in objects]
    assert kinds.count("Deployment") == 2
    # Those that deny are of 1.30, those that change objects of 1.36.
    assert ("ValidatingAdmissionPolicy" in kinds) == (minor >= 30)


def test_the_tried_koordinator_is_that_of_its_crds() -> None:
    readme = (ROOT / "tests" / "data" / "crds" / "README.md").read_text(encoding="utf-8")
    (version,) = set(re.findall(r"koordinator-sh/koordinator (v\S+),", readme))
    assert f"({version})" in section("Koordinator")


@pytest.mark.parametrize("python", supported_pythons())
def test_every_supported_python_has_a_row(python: str) -> None:
    assert re.search(rf"^\| [^|]*{re.escape(python)}\b", section("Python"), re.MULTILINE)


def test_both_helms_are_named() -> None:
    assert f"({HELM_3.version} and {HELM_4.version} are tried)" in " ".join(PAGE.split())


def test_the_lowest_kubernetes_is_that_of_the_chart() -> None:
    chart = (ROOT / "charts" / "koord-queue" / "Chart.yaml").read_text(encoding="utf-8")
    lowest = re.search(r'^kubeVersion: ">=(1\.\d+)\.', chart, re.MULTILINE)
    assert lowest is not None
    tried, lacking = section("Kubernetes").split("What a version lacks")
    assert f"\n| {lowest[1]} to " in tried
    assert f"\n| {lowest[1]} |" in lacking
