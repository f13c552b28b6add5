"""README.md says what is: its manifests are accepted, and what it names exists."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from pathlib import Path
from textwrap import dedent
from typing import Any, Final

import msgspec
import pytest
import yaml

from queue_controllers.configuration import (
    ExtensionOptions,
    GeneralOptions,
    ReservationOptions,
    read_configuration,
)
from queue_controllers.configuration import parse_flags as parse_controllers_flags
from queue_scheduler.admission_check_controller.__main__ import run as run_admission_checks
from queue_scheduler.configuration import KoordQueueConfiguration, load_configuration
from queue_scheduler.configuration import parse_flags as parse_scheduler_flags
from queue_scheduler.plugins.elastic_quota_arguments import ElasticQuotaArguments, read_arguments
from queue_scheduler.plugins.elastic_quota_tree_arguments import ElasticQuotaTreeArguments
from shared_api import well_known_labels
from shared_api.client.errors import Invalid
from shared_api.testing.fake_api_server import FakeApiServer
from shared_api.testing.virtual_clock import VirtualClock
from tests.tidy.source_tree import ROOT

README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
MANIFESTS, CONTROLLERS_FILE, SCHEDULER_FILE = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)

(CHECKS,) = re.findall(r"\n((?:    .*\n)+?)\nThe chart's value `admission", README)

NO_EFFECT: Final = {
    well_known_labels.PREFIX + name for name in ("enable-queueunit-preemption", "queue-args")
}
"""Keys of upstream's that are named because nothing reads them."""


def first_cells(header: str) -> set[str]:
    """What the first column of a table names; the table by its first header."""
    table = re.search(rf"^\| {re.escape(header)} \|.*\n[|-]+\n((?:\|.*\n)+)", README, re.MULTILINE)
    assert table is not None, header
    return {name for row in table[1].splitlines() for name in quoted(row.split("|")[1])}


def quoted(text: str) -> set[str]:
    """What stands in backquotes, without quotes of its own."""
    return set(re.findall(r"`([^`\n]+)`", text))


def keys_of(*structs: type[msgspec.Struct]) -> set[str]:
    """The keys that a file may have for these."""
    return {field.encode_name for struct in structs for field in msgspec.structs.fields(struct)}


def apply(manifests: str) -> None:
    """Create the objects on a server that has the kinds.

    Raises:
        Invalid: one is refused.
    """
    server = FakeApiServer(clock=VirtualClock(), rng=random.Random(1))
    server.direct.create_from(ROOT / "crds")
    for kind in ("elasticquotas", "admissionchecks", "provisioningrequestconfigs"):
        server.direct.create_from(ROOT / "tests" / "data" / "crds" / f"{kind}.yaml")
    server.direct.create_all(yaml.safe_load_all(manifests))


def unknown_keys(text: str) -> set[str]:
    """Labels and annotations that a text names and no constant holds."""
    constants = [value for value in vars(well_known_labels).values() if isinstance(value, str)]
    lists = {*well_known_labels.AVAILABLE_QUOTA, *well_known_labels.AVAILABLE_QUOTA_IN_NAMESPACE}
    known = {*constants, *lists, *NO_EFFECT}
    prefixes = (well_known_labels.PREFIX, well_known_labels.QUOTA_PREFIX, "scheduling.x-k8s.io/")
    named = {word.partition(":")[0] for word in quoted(text) if word.startswith(prefixes)}
    return named - known - set(prefixes)


def unknown_flags(text: str, helps: str) -> set[str]:
    """Flags that a text names and no help does."""
    named = {word.partition("=")[0] for word in quoted(text) if word.startswith("--")}
    return named - set(re.findall(r"--[\w-]+", helps))


def test_the_manifests_are_accepted() -> None:
    apply(MANIFESTS)
    apply(dedent(CHECKS))


def test_a_manifest_that_no_cluster_takes_is_found() -> None:
    with pytest.raises(Invalid, match="Limit must be set"):
        apply(MANIFESTS.replace("limits:", "more:").replace("cpu: 1}, more: {", "cpu: 1, "))


def test_the_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(SCHEDULER_FILE, encoding="utf-8")
    read_arguments(load_configuration(str(path)).plugin_configs["ElasticQuotaV2"], Fraction(1))
    read_configuration(yaml.safe_load(CONTROLLERS_FILE), {"job"})


@pytest.mark.parametrize(
    ("header", "want"),
    [
        ("ElasticQuotaV2 setting", keys_of(ElasticQuotaArguments)),
        ("scheduler's setting", keys_of(KoordQueueConfiguration) - {"apiVersion", "kind"}),
        ("ElasticQuota setting", keys_of(ElasticQuotaTreeArguments)),
        ("controllers' setting", keys_of(GeneralOptions, ExtensionOptions)),
        ("reservations setting", keys_of(ReservationOptions)),
    ],
)
def test_the_tables_have_all_settings(header: str, want: set[str]) -> None:
    assert first_cells(header) == want


def test_the_table_has_all_routes_of_the_debug_api() -> None:
    contract: Any = json.loads((ROOT / "queue_scheduler/debug_api/openapi.json").read_bytes())
    assert first_cells("path on :19876") - {"/openapi.json"} == set(contract["paths"])


def test_the_keys_are_known() -> None:
    assert unknown_keys(README) == set()


def test_an_unknown_key_is_found() -> None:
    assert unknown_keys('`koord-queue/manged: "true"`') == {"koord-queue/manged"}


def test_the_flags_are_known(capsys: pytest.CaptureFixture[str]) -> None:
    for parse in (parse_scheduler_flags, parse_controllers_flags, run_admission_checks):
        with pytest.raises(SystemExit):
            parse(["--help"])
    helps = capsys.readouterr().out
    assert unknown_flags(README, helps) == set()
    assert unknown_flags("`--mange=all`", helps) == {"--mange"}
