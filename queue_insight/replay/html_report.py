"""The report as one page with plots, readable without a network.

Scripts, styles and numbers are in the page; it loads nothing, and forbids itself to. The plots are
drawn by uPlot, as those of the web page are. Series are thinned, and only the largest quotas are
drawn: the JSON has all.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from string import Template
from typing import Any, Final

import msgspec

from queue_insight.replay.report import Json

_OWN: Final = files("queue_insight") / "replay" / "page"
_VENDORED: Final = files("queue_insight") / "page" / "static" / "vendor"
POINTS: Final = 800
"""Points of a line: a plot is about so many pixels wide."""

FULL_RUNS: Final = 3
"""The most replays that are drawn with all points: a page has at most 2 MiB."""

DRAWN: Final = 12
"""Quotas and tenants that are drawn: more lines cannot be told apart."""

_PAGE: Final = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>$title</title>
<style>$plot_style</style>
<style>$style</style>
</head>
<body>
<h1>$title</h1>
<main id="main"></main>
<script type="application/json" id="report">$numbers</script>
<!-- uPlot:
$license-->
<script>$plot_script</script>
<script>$script</script>
</body>
</html>
""")


def build_page(report: Json, title: str = "") -> str:
    """Return the page of a report.

    Args:
        report: Of a replay; in addition it may have `shadow`, as `queue_insight.shadow` has it.
        title: What it is called; "": by its trace.
    """
    numbers = msgspec.json.encode(_thinned(report), order="deterministic").decode()
    return _PAGE.substitute(
        title=html.escape(title or f"Replay of {report['trace']['file']}"),
        plot_style=_read(_VENDORED / "uplot.css"),
        style=_read(_OWN / "report.css"),
        # No text in it can end the element.
        numbers=numbers.replace("<", "\\u003c"),
        license=_read(_VENDORED / "uplot.LICENSE"),
        # Without the comment that names its home, and without what makes it a module.
        plot_script=_read(_VENDORED / "uplot.js").partition("*/")[2].partition("export default")[0],
        script=_read(_OWN / "report.js"),
    )


def _read(part: Traversable) -> str:
    return part.read_text(encoding="utf-8")


def _thinned(report: Json) -> Json:
    """Return the report with what is drawn."""
    points = POINTS * FULL_RUNS // max(FULL_RUNS, len(report["runs"]))
    return {**report, "runs": [_thinned_run(each, points) for each in report["runs"]]}


def _thinned_run(a_run: Json, points: int) -> Json:
    length, use = a_run["queueLength"], a_run["use"]
    hours = max(1, -(-len(length["total"]) // points))
    by_quota = {name: sum(line) for name, line in length["byQuota"].items()}
    tenants = {name: waits["total"] for name, waits in a_run["waits"]["byTenant"].items()}
    used = {name: sum(sum(each["used"]) for each in of.values()) for name, of in use.items()}
    return {
        **a_run,
        "pointSeconds": a_run["stepSeconds"] * hours,
        "queueLength": {
            "total": thin(length["total"], hours),
            "byQuota": {name: thin(length["byQuota"][name], hours) for name in _largest(by_quota)},
        },
        "use": {
            name: {
                resource: {**each, "used": thin(each["used"], hours)}
                for resource, each in use[name].items()
            }
            for name in _largest(used)
        },
        "drawnTenants": _largest(tenants),
        "bottleneckHours": a_run["bottleneckHours"][::hours],
    }


def _largest(sizes: dict[str, Any]) -> list[str]:
    return sorted(sorted(sizes), key=lambda name: -sizes[name])[:DRAWN]


def thin(line: Sequence[float], count: int) -> list[float]:
    """Return the averages of so many neighbors each."""
    parts = (line[at : at + count] for at in range(0, len(line), count))
    return [round(sum(part) / len(part), 2) for part in parts]
