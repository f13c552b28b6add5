"""The notebook runs, and shows what is stored in it: replays are the same on every machine.

No Jupyter is needed: cells run in order in one namespace. UPDATE_GOLDEN=1 stores what they show.
"""

from __future__ import annotations

import ast
import json
import os
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

NOTEBOOK: Final = Path(__file__).resolve().parents[2] / "examples/compare_policies.ipynb"
Json = dict[str, Any]


def run_cell(source: str, names: Json) -> list[Json]:
    """Run a cell as Jupyter does; return its outputs, without numbers of executions."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)  # noqa: S102 - the notebook is our own
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)  # noqa: S307 - same
    outputs = [stream(printed.getvalue())] if printed.getvalue() else []
    return outputs if value is None else [*outputs, shown(value)]


def stream(text: str) -> Json:
    return {"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}


def shown(value: Any) -> Json:
    data = {"text/plain": ["<a plot>"] if hasattr(value, "_repr_svg_") else [repr(value)]}
    if hasattr(value, "_repr_svg_"):
        data["image/svg+xml"] = value._repr_svg_().splitlines(keepends=True)
    return {"data": data, "metadata": {}, "output_type": "display_data"}


def test_the_notebook_shows_what_is_stored_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    notebook = json.loads(NOTEBOOK.read_bytes())
    names: Json = {}
    cells = [each for each in notebook["cells"] if each["cell_type"] == "code"]
    got = [run_cell("".join(each["source"]), names) for each in cells]
    if os.environ.get("UPDATE_GOLDEN"):
        for cell, outputs in zip(cells, got, strict=True):
            cell["outputs"] = outputs
        NOTEBOOK.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")
    assert got == [each["outputs"] for each in cells]


def test_its_plots_are_pictures() -> None:
    notebook = json.loads(NOTEBOOK.read_bytes())
    assert (notebook["nbformat"], len(notebook["cells"]) > 4) == (4, True)
    outputs = [out for each in notebook["cells"] for out in each.get("outputs", ())]
    plots = ["".join(out["data"]["image/svg+xml"]) for out in outputs if "data" in out]
    assert len(plots) == 2
    for each in plots:
        lines = ElementTree.fromstring(each).iter("{http://www.w3.org/2000/svg}polyline")  # noqa: S314 - our own
        assert len(list(lines)) == 2
