"""What programs count, read from the text that they serve to Prometheus."""

from __future__ import annotations

import re
from typing import Final
from urllib.request import urlopen

from tests.cluster.program_process import ANSWER_SECONDS, ProgramProcess

_SAMPLE: Final = re.compile(r"^(\w+)\{(.*)\} (\S+)$")


def samples(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    """Return labels and value of every series of a metric."""
    found = [_SAMPLE.match(line) for line in text.splitlines() if line.startswith(f"{name}{{")]
    return [
        (dict(re.findall(r'(\w+)="([^"]*)"', match[2])), float(match[3]))
        for match in found
        if match is not None
    ]


def counted(process: ProgramProcess, name: str, **labels: str) -> float:
    """Return the sum of a metric's series that have these labels; its metrics are for everybody."""
    url = f"http://127.0.0.1:{process.port_of('--metrics-address')}/metrics"
    with urlopen(url, timeout=ANSWER_SECONDS) as answer:
        text = answer.read().decode()
    return sum(value for found, value in samples(text, name) if labels.items() <= found.items())
