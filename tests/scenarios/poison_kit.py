"""Objects whose annotations, labels and fields hold what no program expects.

Each known key is given nasty values, on every kind that the programs read, and fields of specs are
replaced by values of other types. What the API server refuses is no matter of the programs.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.jobframework.generic_job import JobKind
from shared_api.client.errors import ApiError
from shared_api.testing.object_builders import (
    elastic_quota_body,
    namespace_body,
    node_body,
    pod_body,
    queue_body,
    queue_unit_body,
)
from shared_api.well_known_labels import ADMISSION_GATE, ALL_KEYS, QUOTA_NAME
from tests.sample_jobs import open_crd, sample

LONG: Final = 100_000
"""Characters of the longest values; all annotations of an object have 256 KiB."""

Json = dict[str, Any]

TEXTS: Final = {
    "deep JSON": '{"a":' * 3000 + "1" + "}" * 3000,
    "deep lists": "[" * 3000 + "]" * 3000,
    "never closed": "[" * LONG,
    "a long text": "x" * LONG,
    "many quotes": "[]" * 70 + '"' + '\\"' * (LONG // 2),
    "blanks before the end": "1" + " " * LONG + "!",
    "digits": "9" * 5000,
    "NUL": "a\0b",
    "bidi": "\u202e\u2066abc",
    "a line break": "a\n---\nb: c",
    "an exponent": "9e999999999",
    "no number": "NaN",
    "below zero": "-1",
    "more than 64 bits": str(2**70),
    "a long duration": "9" * 60 + "h",
    "the first year": "0001-01-01T00:00:00+23:59",
    "the last year": "9999-12-31T23:59:59-23:59",
    "an empty map": "{}",
    "an empty list": "[]",
    "null": "null",
    "a number as JSON": "1",
    "a map of other types": '{"main": {"labels": [1], "tolerations": {"a": null}}}',
    "a map of nulls": '{"main": null, "cpu": null}',
    "a YAML tag": "!!timestamp x",
    "YAML aliases": "a: &a [1]\nb: [*a, *a]",
    "slashes": "a/b/c/d",
    "only slashes": "///",
    "commas": "," * 1000,
    "a percent sign": "%s%n%(x)s{0}",
    "blanks": " \t\r\n",
}
"""Values of annotations, by what is nasty about them."""

WORDS: Final = {
    "a number": "99999999999999999999",
    "an exponent": "1e999",
    "true": "true",
    "no number": "NaN",
    "the longest": "x" * 63,
    "dots": "a.b.c",
}
"""Values of labels: the API server takes no others."""


def deep(levels: int = 150) -> Json:
    """Return nested maps, as deep as a field without a schema may be for sure."""
    found: Json = {}
    for _ in range(levels):
        found = {"a": found}
    return found


FIELDS: Final[tuple[Any, ...]] = (
    *(None, True, -1, 2**62, 1.5, "", "x", "9" * 5000, "1" + " " * LONG + "!", "\0"),
    *([], [None], [[]], {}, {"a": None}, deep()),
)
"""Values of fields."""


class Poison(NamedTuple):
    """A bad object: what it is, and where it is bad."""

    body: Json
    about: str


# --- good objects, by kind ----------------------------------------------------------------------


def _template() -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
    return {"metadata": {"labels": {}}, "spec": {"containers": [container]}}


def _job() -> Json:
    template = _template()
    template["spec"]["restartPolicy"] = "Never"
    spec = {"suspend": False, "parallelism": 1, "completions": 1, "template": template}
    return _named("batch/v1", "Job", spec)


def _named(api_version: str, kind: str, spec: Json) -> Json:
    metadata = {"namespace": "team", "labels": {QUOTA_NAME: "poor"}, "annotations": {}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def _job_set() -> Json:
    replicated = {"name": "w", "replicas": 1, "template": {"spec": {"template": _template()}}}
    return _named("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [replicated]})


def _workflow() -> Json:
    body = _named("argoproj.io/v1alpha1", "Workflow", {"entrypoint": "m", "templates": []})
    body["metadata"]["annotations"]["koord-queue/min-resources"] = "cpu: 10m"
    return body


def _app_wrapper() -> Json:
    component = {
        "template": _job(),
        "podSets": [{"path": "template.spec.template", "replicas": 1}],
    }
    return _named("workload.codeflare.dev/v1beta2", "AppWrapper", {"components": [component]})


def _torch_job() -> Json:
    replicas = {"Worker": {"replicas": 1, "template": _template()}}
    return _named("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": replicas})


def _pod() -> Json:
    body = pod_body("x", namespace="team", labels={QUOTA_NAME: "poor"})
    body["spec"]["schedulingGates"] = [{"name": ADMISSION_GATE}]
    return body


def _unit() -> Json:
    return queue_unit_body("x", namespace="team", quota="poor", requests={"cpu": "10m"})


def _policy() -> Json:
    limits = [{"users": ["ann"], "max": {"cpu": 1}, "running": 1}, {"groups": ["*"], "pending": 1}]
    body = _named("scheduling.x-k8s.io/v1alpha1", "QuotaPolicy", {"quotas": ["poor"]})
    body["metadata"]["namespace"] = "koord-queue"
    body["spec"]["userLimits"] = limits
    return body


def _sampled(key: str) -> Json:
    """Return the sample of a kind of jobs, in the quota of the bad ones."""
    body = sample(key)
    if body["kind"] == "List":  # a group and its pods
        body = body["items"][0]
    body["metadata"] = {"namespace": "team", "labels": {QUOTA_NAME: "poor"}, "annotations": {}}
    return body


_OWN: Final[dict[str, Callable[[], Json]]] = {
    "job": _job,
    "pod": _pod,
    "jobset": _job_set,
    "workflow": _workflow,
    "appwrapper": _app_wrapper,
    "pytorchjob": _torch_job,
}
"""Of these kinds the samples have more than is read, which would be spoiled in vain."""

_JOB_KINDS: Final = tuple(each.kind for each in EXTENSIONS)

KINDS: Final[tuple[Callable[[], Json], ...]] = (
    *(_OWN.get(kind.key, functools.partial(_sampled, kind.key)) for kind in _JOB_KINDS),
    _unit,
    lambda: queue_body("x"),
    _policy,
    lambda: elastic_quota_body("x", max={"cpu": 1}),
    lambda: namespace_body("x"),
    lambda: node_body("x"),
)
"""Builders of good objects, one for each kind."""


def _crds() -> Iterator[Json]:
    of_name: dict[str, list[JobKind]] = {}
    for kind in _JOB_KINDS:
        if kind.group not in BUILT_IN:
            of_name.setdefault(f"{kind.plural}.{kind.group}", []).append(kind)
    for kinds in of_name.values():
        first, versions = kinds[0], [each.version for each in kinds]
        yield open_crd(first.kind, first.plural, first.group, versions, status=True)


BUILT_IN: Final = {"", "apps", "batch"}
CRDS: Final = tuple(_crds())
"""Of the kinds that are not built in. Their schemas take anything: more than real ones."""

ENABLED: Final = ",".join(kind.key for kind in _JOB_KINDS)
"""The kinds that are queued: all of them."""


# --- making them bad ----------------------------------------------------------------------------


def poisons(count: int) -> Iterator[Poison]:
    """Yield so many bad objects; of enough of them every key has every value on every kind."""
    keys, texts, words = sorted(ALL_KEYS), sorted(TEXTS), sorted(WORDS)
    for number in range(count):
        body = KINDS[number % len(KINDS)]()
        body["metadata"]["name"] = f"bad-{number}"
        turn = number // len(KINDS)
        if turn % 3 == 2:
            yield Poison(body, _spoil_field(body, turn // 3))
            continue
        key = keys[(turn * 7 + number) % len(keys)]
        part, table, names = "annotations", TEXTS, texts
        if turn % 6 == 1:
            part, table, names = "labels", WORDS, words
        name = names[(turn + number * 5) % len(names)]
        body["metadata"].setdefault(part, {})[key] = table[name]
        yield Poison(body, f"{body['kind']} {part} {key}: {name}")


def _spoil_field(body: Json, turn: int) -> str:
    """Replace a field, or a part of one, below `spec`; return which, and by what."""
    places = list(_places(body.get("spec"), ("spec",)))
    value = copy.deepcopy(FIELDS[turn % len(FIELDS)])
    if not places:
        body["spec"] = value
        return f"{body['kind']} spec: {value!r:.40}"
    path = places[(turn * 11) % len(places)]
    owner: Any = body
    for part in path[:-1]:
        owner = owner[part]
    owner[path[-1]] = value
    return f"{body['kind']} {'.'.join(map(str, path))}: {value!r:.40}"


def _places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    parts: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        parts = enumerate(value)
    for key, inner in parts:
        yield (*path, key)
        yield from _places(inner, (*path, key))


def put(direct: Any, poison: Poison) -> bool:
    """Create a bad object; return False if the API server refuses it."""
    try:
        direct.create(poison.body)
    except ApiError:
        return False
    return True
