"""Random pod specs, and their requests, computed without the code under test."""

from __future__ import annotations

import random
from typing import Any

Json = dict[str, Any]


def random_pod_spec(rng: random.Random) -> Json:
    """Return the spec of a pod: some containers, mostly with init containers and sidecars."""
    spec: Json = {"containers": [_container(rng, f"c{at}") for at in range(rng.randint(1, 3))]}
    first = [_container(rng, f"i{at}") for at in range(rng.randint(0, 3))]
    for each in first:
        if rng.random() < 0.5:
            each["restartPolicy"] = "Always"
    if first:
        spec["initContainers"] = first
    if rng.random() < 0.3:
        spec["overhead"] = {"cpu": f"{rng.randint(1, 500)}m"}
    return spec


def cpu_of_pod(spec: Json) -> int:
    """Return the milli-CPUs of a pod by the definition of Kubernetes (KEP-753).

    The maximum over time: an init container runs with the sidecars that started before it; in the
    end the containers run with all sidecars.
    """
    beside, most = 0, 0
    for each in spec.get("initContainers", []):
        asked = _cpu_of(each)
        most = max(most, beside + asked)
        if each.get("restartPolicy") == "Always":
            beside += asked
    most = max(most, beside + sum(map(_cpu_of, spec["containers"])))
    return most + int(spec.get("overhead", {}).get("cpu", "0m")[:-1])


def _container(rng: random.Random, name: str) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": f"{rng.randint(1, 4000)}m"}}}


def _cpu_of(container: Json) -> int:
    return int(container["resources"]["requests"]["cpu"][:-1])
