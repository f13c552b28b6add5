"""Writes `library_values.json`: what SciPy and NumPy say about made samples.

They are no dependency of the tests: together they take 200 MB, and what is asked of them does not
change. Run it in an environment that has both, and the package::

    pip install scipy==1.17.1 numpy==2.4.6
    python -m tests.queue_insight.forecast.make_library_values
"""

from __future__ import annotations

import json
import random
from importlib import import_module
from math import ceil
from pathlib import Path
from typing import Any

from queue_insight.forecast.survival import BINS, edge_of

VALUES = Path(__file__).parent / "library_values.json"
LEVELS = (0.1, 0.5, 0.9)

numpy: Any = import_module("numpy")
stats: Any = import_module("scipy.stats")


def write() -> None:
    """Write the file."""
    survival = [_survival(random.Random(seed)) for seed in range(12)]
    exact = [_exact(random.Random(seed), count) for seed, count in enumerate((1, 9, 20, 57, 200))]
    censored = [_censored(random.Random(seed)) for seed in range(12)]
    found = {"survival": survival, "quantiles": exact, "censoredQuantiles": censored}
    VALUES.write_text(json.dumps(found, indent=None, separators=(",", ":")) + "\n", "utf-8")


def _survival(rng: random.Random) -> dict[str, Any]:
    """Kaplan and Meier's estimate of runs of which no two are in one bin of the grid."""
    places = rng.sample(range(10, BINS - 1), rng.randrange(5, 60))
    runs = [(edge_of(place + 0.5), rng.random() < 0.4) for place in places]
    runs[0] = runs[0][0], False
    asked = [edge_of(place) for place in sorted(rng.sample(range(BINS), 25))]
    asked = [at for at in asked if at < max(value for value, _ in runs)]
    answers = _kaplan_meier(runs).evaluate(asked)
    return {"runs": runs, "at": asked, "survival": [round(float(s), 12) for s in answers]}


def _exact(rng: random.Random, count: int) -> dict[str, Any]:
    """Conformal quantiles: of n values the ceil((n + 1) * level)-th in order."""
    values = [round(rng.gauss(0, 1), 6) for _ in range(count)]
    found = []
    for level in LEVELS:
        share = min(1.0, ceil((count + 1) * level - 1e-9) / count)
        found.append(float(numpy.quantile(values, share, method="inverted_cdf")))
    return {"values": values, "quantiles": found}


def _censored(rng: random.Random) -> dict[str, Any]:
    """The same where some are only known to be larger: where survival falls so far."""
    values = [(round(rng.gauss(0, 1), 6), rng.random() < 0.3) for _ in range(rng.randrange(20, 99))]
    estimate, count = _kaplan_meier(values), len(values)
    found = []
    for level in LEVELS:
        goal = 1 - (count + 1) * level / count
        low = estimate.quantiles[estimate.probabilities <= goal + 1e-12]
        found.append(float(low[0]) if len(low) else max(value for value, _ in values))
    return {"values": values, "quantiles": found}


def _kaplan_meier(values: list[tuple[float, bool]]) -> Any:
    sample = stats.CensoredData(
        uncensored=[value for value, is_cut in values if not is_cut],
        right=[value for value, is_cut in values if is_cut],
    )
    return stats.ecdf(sample).sf


if __name__ == "__main__":
    write()
