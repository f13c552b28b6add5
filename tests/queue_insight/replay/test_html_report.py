"""The page of a replay: whole without a network, and drawn without an error."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from queue_insight.replay.html_report import build_page, thin
from tests.queue_insight.replay.replay_kit import HEAD, Desk

MOST_BYTES = 2 * 1024 * 1024

# Enough of a browser for the script: elements that keep what is appended, and plots that are noted.
BROWSER = """
const made = [], steps = [];
function node(tag) {
  const own = { tag, children: [], textContent: "", clientWidth: 900 };
  own.appendChild = (child) => { own.children.push(child); return child; };
  return own;
}
const main = node("main");
const document = {
  createElement: node,
  getElementById: (id) => id === "main" ? main : { textContent: NUMBERS },
};
class uPlot {
  constructor(options, data, target) {
    if (data.some((line) => line.length !== data[0].length)) throw new Error("lines differ");
    if (data.length !== options.series.length) throw new Error("series and lines differ");
    options.axes.forEach((axis) => axis.values(null, [0, 1]));
    made.push(data.length - 1);
    steps.push(options.series.slice(1).every((each) => each.paths === "steps"));
  }
}
uPlot.paths = { stepped: ({ align }) => align === 1 && "steps" };
SCRIPT
const texts = [];
(function walk(each) { texts.push(each.textContent); each.children.forEach(walk); })(main);
console.log(JSON.stringify({ made, steps, texts }));
"""


@pytest.fixture
def page(desk: Desk) -> str:
    path = desk.folder / "report.html"
    arguments = (f"--report={path}", "--policy=FIFO", "--compare", "Priority", "--marginal")
    assert desk.run(*arguments) == 0, desk.err.getvalue()
    return path.read_text(encoding="utf-8")


def scripts(page: str) -> list[str]:
    """Return the bodies of the script elements: the numbers, the plots, the page."""
    return re.findall(r"<script[^>]*>(.*?)</script>", page, re.DOTALL)


def test_nothing_is_loaded(page: str) -> None:
    assert "://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert not re.findall(r"<(?:link|img|iframe|script[^>]*\ssrc)\b", page)
    assert not re.findall(r"url\(|@import|\bfetch\(|XMLHttpRequest|\beval\(", page)
    assert "default-src 'none'" in page
    assert len(page.encode()) < MOST_BYTES


def test_the_license_of_the_plots_is_in_the_page(page: str) -> None:
    vendored = files("queue_insight") / "page" / "static" / "vendor"
    text = (vendored / "uplot.LICENSE").read_text(encoding="utf-8")
    assert "Permission is hereby granted" in text
    assert text in page


def test_no_text_of_a_trace_can_end_the_numbers(desk: Desk) -> None:
    desk.write("trace.csv", f"{HEAD},name\n0,900,red,2,0,</script><b>\n1,1,red,1,0,<!--\n")
    report = desk.report()
    numbers = scripts(build_page(report))[0]
    assert "<" not in numbers
    assert json.loads(numbers)["runs"][0]["starved"][0]["name"] == "<!--"


def draw(page: str, folder: Path) -> Any:
    """Run the script of a page; return how many lines each plot has, and all texts."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the script of the page is not run")
    numbers, _, script = scripts(page)
    program = BROWSER.replace("NUMBERS", json.dumps(numbers)).replace("SCRIPT", script)
    path = folder / "page.js"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run([node, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_script_draws_everything(page: str, tmp_path: Path) -> None:
    drawn = draw(page, tmp_path)
    # Waits: both, and each by tenant; queues: both, and each; use and bottlenecks of each.
    assert drawn["made"] == [2, 2, 2, 2, 3, 3, 4, 4, 1, 1]
    assert drawn["steps"] == [False] * 3 + [True] * 7, "waits are no numbers over time"
    heads = {"Waits", "Queue length", "Use", "Bottlenecks", "Fairness", "One unit more"}
    assert heads <= set(drawn["texts"])
    assert "Priority instead of FIFO" in drawn["texts"]


def test_replays_of_different_length_are_drawn_together(page: str, tmp_path: Path) -> None:
    report = json.loads(scripts(page)[0])
    longer = report["runs"][1]
    for line in (longer["queueLength"]["total"], *longer["queueLength"]["byQuota"].values()):
        line.append(0.0)
    for resources in longer["use"].values():
        for each in resources.values():
            each["used"].append(0.0)
    assert draw(build_page(report), tmp_path)["made"] == draw(page, tmp_path)["made"]


def test_the_plots_can_be_parsed(page: str, tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: the script of the plots is not parsed")
    path = tmp_path / "plots.js"
    path.write_text(scripts(page)[1], encoding="utf-8")
    done = subprocess.run([node, "--check", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_many_replays_of_many_quotas_fit(page: str) -> None:
    report = json.loads(scripts(page)[0])
    names, count = [f"team-{number:03}" for number in range(300)], 2000
    line = [float(123_456 + number) for number in range(count)]
    one = report["runs"][0]
    waits = one["waits"]["byTenant"]["red"]
    big = {
        **one,
        "waits": {"all": waits, "byTenant": dict.fromkeys(names, waits)},
        "queueLength": {"total": line, "byQuota": dict.fromkeys(names, line)},
        "use": {key: {f"r/{n}": {"limit": 1, "used": line} for n in range(3)} for key in names},
        "bottleneckHours": one["bottleneckHours"] * count,
    }
    assert len(build_page({**report, "runs": [big] * 8}).encode()) < MOST_BYTES


def test_series_are_thinned() -> None:
    assert thin([1.0, 3.0, 5.0], 2) == [2.0, 5.0]
    assert thin([1.0, 3.0], 1) == [1.0, 3.0]
