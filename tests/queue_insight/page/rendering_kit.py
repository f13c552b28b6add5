"""Draws views of the page without a browser, by `rendered_view.mjs` in Node.js."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.queue_insight.page.page_kit import Browser

STATIC = Path("queue_insight/page/static").resolve()
PROGRAM = Path(__file__).with_name("rendered_view.mjs")

Element = dict[str, Any]
"""An element as {tag, class, text, children}; a text as {text}."""


def draw(client: Browser, folder: Path, view: str, path: str, **props: str) -> Element:
    """Return the elements of a view that shows what the server answers.

    Args:
        client: Asks the server.
        folder: An empty one, for the modules of the page.
        view: `module/Component`.
        path: The path that the view asks for.
        props: The properties of the component.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the views of the page are not drawn")
    for name in ("app", "vendor"):
        shutil.copytree(STATIC / name, folder / name)
    # Nothing is plotted: uPlot would ask for more of a browser.
    (folder / "vendor/uplot.js").write_text("export default class {}", encoding="utf-8")
    (folder / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    program = shutil.copy(PROGRAM, folder)
    # The view of a quota asks what it used as well.
    answers = {each: client.get(each).json() for each in (path, "/page/over-time")}
    asked = {"view": view, "props": props, "answers": answers}
    done = subprocess.run(
        [node, program], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    drawn: Element = json.loads(done.stdout)
    return drawn


def elements(drawn: Element) -> Iterator[Element]:
    """Yield an element and all below it; texts are left out."""
    if "tag" in drawn:
        yield drawn
        for child in drawn["children"]:
            yield from elements(child)
