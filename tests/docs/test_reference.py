"""The tables of the reference have everything that the sources have."""

from __future__ import annotations

from typing import Final

import pytest
import yaml

from koord_queue.cli.app import COMMANDS
from queue_controllers.decision.pending import WAYS_OUT
from queue_scheduler.decision import Reason
from tests.docs.reference_kinds import CRDS, kinds_text
from tests.docs.reference_metrics import EVERY_PROGRAM, Declared, declared_metrics, metrics_text
from tests.docs.reference_programs import PROGRAMS, commands_text, flags_text, parser_of
from tests.docs.reference_reasons import reasons_text
from tests.docs.reference_text import code, plain, prose, table
from tests.tidy.source_tree import planted, shipped_files
from tests.tidy.user_pages import metric_names, quoted

OF_ALL_KINDS: Final = {"apiVersion", "kind", "metadata", "spec", "status"}


def test_every_field_of_the_kinds_is_described() -> None:
    text = kinds_text()
    names = {name.rpartition(".")[2] for name in quoted(text)}
    for file in CRDS.glob("*.yaml"):
        (version,) = yaml.safe_load(file.read_text(encoding="utf-8"))["spec"]["versions"]
        assert set(_fields(version["schema"]["openAPIV3Schema"])) - names == set()
    assert "| `spec.podSet[].count` | int32 |" in text


def _fields(schema: object) -> list[str]:
    """Return the names of all fields below `spec` and `status`."""
    found: list[str] = []
    if isinstance(schema, dict):
        properties = schema.get("properties", {})
        found += [name for name in properties if name not in OF_ALL_KINDS]
        for each in (*properties.values(), schema.get("items"), schema.get("additionalProperties")):
            found += _fields(each)
    return found


def test_every_flag_of_every_program_is_listed() -> None:
    text = flags_text()
    for read in PROGRAMS:
        parser = parser_of(read)
        assert f"## {parser.prog}\n" in text
        named = {
            word for word in parser.format_help().replace(",", " ").split() if word[:2] == "--"
        }
        assert {word for word in named if f"`{word}`" not in text and word.isalpha()} == set()
    assert "`--insight-socket-dir`" in text
    assert "%(default)s" not in text


def test_every_command_is_listed_with_its_options() -> None:
    text = commands_text()
    assert [name for name in COMMANDS if f"### {name}\n" not in text] == []
    assert "`-w, --watch`" in text
    assert text.count("`--kubeconfig FILE`") == 1


def test_every_metric_is_listed() -> None:
    text = metrics_text()
    assert metric_names(shipped_files()) - quoted(text) == set()
    assert f"## {EVERY_PROGRAM}\n" in text


def test_a_metric_is_read_with_its_labels_and_text() -> None:
    source = planted(
        "import prometheus_client\n"
        'unit = "in base units"\n'
        'labels = ("queue",)\n'
        'Counter("jobs", f"Jobs; {unit}", labels)\n'
        'Gauge("now", "Now", ["a", "b"])\n'
        'GaugeMetricFamily("late", "Late", labels=labels)\n'
    )
    assert list(declared_metrics(source)) == [
        Declared("jobs_total", "counter", ("queue",), "Jobs; in base units"),
        Declared("now", "gauge", ("a", "b"), "Now"),
        Declared("late", "gauge", ("queue",), "Late"),
    ]


def test_every_reason_is_listed_with_its_way_out() -> None:
    text = reasons_text()
    rows = {row.split("|")[1].strip(): row for row in text.splitlines() if row.startswith("| `")}
    assert {f"`{reason.value}`" for reason in Reason} <= rows.keys()
    for reason, way_out in WAYS_OUT.items():
        assert plain(way_out) in rows[f"`{reason}`"]


@pytest.mark.parametrize(
    ("got", "want"),
    [
        pytest.param(plain("a_b <c> *d*"), r"a\_b \<c\> \*d\*", id="nothing is markup"),
        pytest.param(prose("see `a_b` or c_d"), r"see `a_b` or c\_d", id="but code is"),
        pytest.param(code("a`b"), "`` a`b ``", id="a backquote in code"),
        pytest.param(
            table(("a",), [("b|c",)]), "| a |\n| --- |\n| b\\|c |\n", id="a bar in a cell"
        ),
    ],
)
def test_texts_are_shown_as_they_are(got: str, want: str) -> None:
    assert got == want
