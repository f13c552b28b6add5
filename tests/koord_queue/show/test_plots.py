from __future__ import annotations

from xml.etree import ElementTree

import pytest

from koord_queue.show.plots import line_plot

SVG = "{http://www.w3.org/2000/svg}"


def points_of(svg: str) -> list[str]:
    root = ElementTree.fromstring(svg)  # noqa: S314 - made here
    return [each.attrib["points"] for each in root.iter(f"{SVG}polyline")]


def test_a_line_goes_from_zero_to_the_end_of_the_axes() -> None:
    plot = line_plot("t", {"a": [(0, 0), (100, 20)]}, "x", "y")
    assert points_of(plot.svg) == ["60.0,236.0 620.0,34.0"]


@pytest.mark.parametrize(
    ("most", "end"),
    [
        pytest.param(0, "1", id="nothing at all"),
        pytest.param(0.3, "0.5", id="below one"),
        pytest.param(1, "1", id="a round number"),
        pytest.param(7, "10", id="up to ten"),
        pytest.param(150, "200", id="up to two hundred"),
    ],
)
def test_axes_end_with_a_round_number(most: float, end: str) -> None:
    svg = line_plot("t", {"a": [(0, 0), (1, most)]}, "x", "y").svg
    root = ElementTree.fromstring(svg)  # noqa: S314 - made here
    texts = [each.text for each in root.iter(f"{SVG}text") if each.get("text-anchor") == "end"]
    assert texts[5] == end


def test_names_cannot_break_out_of_the_picture() -> None:
    svg = line_plot("<b>", {"a & <script>": [(0, 0)]}, "x", "y").svg
    assert "<script>" not in svg
    assert points_of(svg) == ["60.0,236.0"]


def test_without_lines_there_are_axes() -> None:
    assert points_of(line_plot("t", {}, "x", "y").svg) == []
