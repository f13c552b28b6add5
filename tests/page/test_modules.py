"""The pure functions of the window, in the browser that runs them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser

from tests.page.window_kit import Window, opened


@pytest.fixture(scope="module")
def modules(browser: Browser, url: str) -> Iterator[Window]:
    with opened(browser, url) as window:
        window.open("/what-if")
        yield window


def call(window: Window, module: str, name: str, *arguments: Any) -> Any:
    """Call a function of a module."""
    script = "async ([path, name, given]) => (await import(path))[name](...given)"
    return window.page.evaluate(script, [f"/assets/app/{module}.js", name, arguments])


@pytest.mark.parametrize(
    ("quantity", "want"),
    [("1", 1), ("250m", 0.25), ("2k", 2000), ("1.5Gi", 1.5 * 2**30), ("1e3", 1000), ("-3", -3)],
)
def test_a_quantity_is_a_number(modules: Window, quantity: str, want: float) -> None:
    assert call(modules, "format", "amountOf", quantity) == want


@pytest.mark.parametrize(
    ("seconds", "want"),
    [(0, "0s"), (59.6, "1m"), (61, "1m 1s"), (7500, "2h 5m"), (90_061, "1d 1h"), (-30, "-30s")],
)
def test_a_span_has_two_units_at_most(modules: Window, seconds: float, want: str) -> None:
    assert call(modules, "format", "span", seconds) == want


@pytest.mark.parametrize(
    ("resource", "amount", "want"),
    [("cpu", 1.005, "1"), ("memory", 3 * 2**29, "1.5Gi"), ("nvidia.com/gpu", 8, "8")],
)
def test_an_amount_is_short(modules: Window, resource: str, amount: float, want: str) -> None:
    assert call(modules, "format", "showAmount", resource, amount) == want


@pytest.mark.parametrize(
    ("rate", "want"), [(None, ""), (0, "0"), (2.55, "2.6"), (42.4, "42"), (1234.5, "1,235")]
)
def test_a_rate_has_as_many_digits_as_matter(modules: Window, rate: float, want: str) -> None:
    assert call(modules, "format", "perHour", rate) == want


@pytest.mark.parametrize(
    "value",
    [
        {"spec": {"max": {"cpu": "12", "nvidia.com/gpu": "8"}, "lends": True, "none": None}},
        {"text": ["yes", "null", "1e3", "# no comment", "a: b", "- c", "", "two\nlines", "'", '"']},
        {"list": [{"a": 1, "b": [1, [2]]}, {}, []], "y": "n", "~": "~"},
    ],
)
def test_yaml_is_read_as_what_was_written(modules: Window, value: Any) -> None:
    assert yaml.safe_load(call(modules, "yaml", "toYaml", value)) == value


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({}, "kubectl get job.v1.batch train --output yaml --namespace a"),
        ({"apiVersion": "v1", "kind": "Pod"}, "kubectl get pod train --output yaml --namespace a"),
        ({"name": "--server=https://elsewhere.example"}, ""),
        ({"kind": "--token=x"}, ""),
        ({"apiVersion": "-batch/v1"}, ""),
        ({"kind": "secrets,jobs"}, ""),
        ({"kind": "secrets/all"}, ""),
        ({"name": ""}, ""),
    ],
)
def test_no_job_of_a_unit_is_an_option_of_kubectl(
    modules: Window, changes: dict[str, str], want: str
) -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train"} | changes
    assert call(modules, "kubectl", "yamlCommand", "a", job) == want


def test_paths_of_names_from_the_cluster_are_encoded(modules: Window) -> None:
    got = call(modules, "router", "pathTo", "queues", "a/../b?c#d")
    assert got == "/queues/a%2F..%2Fb%3Fc%23d"
    assert call(modules, "router", "segmentsOf", got) == ["queues", "a/../b?c#d"]
    assert call(modules, "router", "segmentsOf", "/%zz") is None


def test_a_number_that_none_follows_holds_for_its_step(modules: Window) -> None:
    lines = [
        {"label": "p50", "values": [None, 4, 6, None, None], "points": True},
        {"label": "p90", "values": [None, 5, 7, None, 9]},
    ]
    held = call(modules, "over_time", "heldToTheEnd", [60, 120, 180, 240, 300], lines)
    assert held["times"] == [60, 120, 180, 239.999, 240, 300]
    assert [each["values"] for each in held["lines"]] == [
        [None, 4, 6, 6, None, None],
        [None, 5, 7, 7, None, 9],
    ]
    assert held["again"] == [False, False, False, True, False, False]
