"""The test of quotas on the page about Python: it is ten lines, passes, and can fail.

The other examples need a cluster: `tests/cluster/test_way_in.py`.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from koord_queue.client import Client

PAGE: Final = Path(__file__).resolve().parents[2] / "docs/python.md"
MOST_LINES: Final = 10


def example() -> str:
    text = PAGE.read_text(encoding="utf-8").partition("## Test your quotas")[2]
    found = re.search(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def run(folder: Path, cpu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the example against a quota of so many cores."""
    quota = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "research"},
        "spec": {"min": {"cpu": cpu}, "max": {"cpu": cpu}},
    }
    (folder / "quotas.yaml").write_text(yaml.safe_dump(quota), encoding="utf-8")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(example(), names)  # noqa: S102 - the page is our own
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()


def test_the_table_has_all_methods_with_their_arguments() -> None:
    text = PAGE.read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`\w+\([^|]*\)`) \|", text, re.MULTILINE)
    written = dict(re.findall(r"`(\w+)\(([^)]*)", " ".join(cells)))
    methods = {
        name: inspect.signature(each).parameters.keys() - {"self", "seed"}
        for name, each in inspect.getmembers(Client, inspect.isfunction)
        if not name.startswith("_") and name != "close"
    }
    named = {
        name: {part.partition("=")[0].strip() for part in text.split(",")}
        for name, text in written.items()
    }
    assert named == methods


def test_the_example_is_ten_lines() -> None:
    assert len([line for line in example().splitlines() if line.strip()]) <= MOST_LINES


def test_it_passes_with_enough_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, "32", monkeypatch)


def test_it_fails_with_too_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        run(tmp_path, "8", monkeypatch)
