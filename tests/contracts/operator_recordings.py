"""Replays recorded lives of jobs: `python -m tests.contracts.operator_recordings FILE...`.

A file has what a real operator on a real API server did with one job (plain JSON or gzipped;
`tests/data/recordings`). Every entry goes through the adapter of its kind and the state machine, as
if it came from the informers; a request with `suspend: false` counts as the admission.

Prints one JSON line per change of (state, resumable, pods_alive, pod_sets), violations of a rule on
standard error, then `N passed, M failed` (files); exits 1 on any failure. The rules:

- running only with a Running pod that is not being deleted;
- never resumable while a pod object is being deleted;
- never held, released, or gone while a pod exists;
- finished exactly from the object's final entry on, until the object is gone;
- demand is the sum of count times requests.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from queue_controllers.decision.job_state import (
    JobState,
    PodCounts,
    State,
    count_pods,
    judge_job,
)
from queue_controllers.decision.pending import SILENT_SECONDS
from queue_controllers.decision.queue_unit_builder import demand_of
from queue_controllers.extension_list import EXTENSIONS
from queue_controllers.jobframework.generic_job import (
    GenericJob,
    JobFacts,
    JobPodSet,
    NeedsOther,
    pod_set_of_pod,
    read_facts,
)
from shared_api.objects.pod import Pod
from shared_api.pod_requests import pod_requests
from shared_api.resource_list import format_amounts
from shared_api.well_known_labels import RELEASED_AT

Json = dict[str, Any]

FINAL_CONDITIONS = ("Complete", "Completed", "Succeeded", "Failed")
# Kinds that report it elsewhere in their status: path -> the final values.
FINAL_WORDS: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "RayJob": (("jobDeploymentStatus",), frozenset({"Complete", "Failed"})),
    "SparkApplication": (("applicationState", "state"), frozenset({"COMPLETED", "FAILED"})),
    "Workflow": (("phase",), frozenset({"Succeeded", "Failed", "Error"})),
    "RayCluster": ((), frozenset()),
}


@dataclass
class Line:
    """What is printed for one state of one job."""

    file: str
    name: str
    uid: str
    t: float
    rv: int
    state: JobState
    pods: PodCounts
    pod_sets: tuple[JobPodSet, ...]

    def shown(self) -> Json:
        sets = [
            {
                "name": each.name,
                "count": each.count,
                "requests": format_amounts(pod_requests(each.template.spec)),
            }
            for each in self.pod_sets
        ]
        return {
            "file": self.file,
            "name": self.name,
            "uid": self.uid,
            "t": self.t,
            "rv": self.rv,
            "state": self.state.state.value,
            "resumable": self.state.resumable,
            "pods_alive": self.pods.living,
            "pod_sets": sets,
            "demand": format_amounts(demand_of(self.pod_sets)),
        }


@dataclass
class RecordedJob:
    """One object of the recorded kind, as of the entries so far."""

    name: str
    uid: str
    spec: Json
    body: Json = field(default_factory=dict)
    exists: bool = True
    final: bool = False
    admitted: bool = False
    released_at: datetime | None = None
    quiet_since: float | None = None
    pod_sets: tuple[JobPodSet, ...] = ()
    shown: Json = field(default_factory=dict)


class Replay:
    """One file, entry by entry."""

    def __init__(self, file: str, recording: Json, adapter: GenericJob[Any]) -> None:
        self._file = file
        self._entries: Sequence[Json] = recording["entries"]
        self._namespace = recording.get("namespace", "default")
        self._adapter = adapter
        self._jobs: dict[str, RecordedJob] = {}
        self._owners: dict[str, str] = {}  # uid of a child or pod -> uid of its owner
        self._pods: dict[str, Json] = {}
        self._children: dict[tuple[str, str], Json] = {}  # by kind and name
        self._started = _start_of(self._entries)
        self._admitted_ahead = False  # by a create whose object has not been recorded yet
        self.broken: list[str] = []

    def run(self) -> Iterator[Line]:
        """Yield a line for every change, and collect violations of the rules."""
        for entry in self._entries:
            if "do" in entry:
                self._on_request(entry)
            elif entry.get("what") == "object":
                self._on_object(entry)
            elif entry.get("what") == "child":
                self._on_child(entry)
            elif entry.get("what") == "pod":
                self._on_pod(entry)
            else:
                continue
            for job in self._jobs.values():
                yield from self._look(job, entry)

    # --- entries in -------------------------------------------------------------------------

    def _on_request(self, entry: Json) -> None:
        if entry.get("error") or not 200 <= (entry.get("http") or 0) < 300:
            return
        if not _turns_off_suspend(entry.get("body")):
            return
        if entry["do"].startswith("create"):
            self._admitted_ahead = True
        for job in self._jobs.values():
            if job.exists and not job.final:
                job.admitted = True
                job.released_at = self._started + timedelta(seconds=entry["t"])

    def _on_object(self, entry: Json) -> None:
        meta: Json = dict(entry["metadata"])
        uid = meta["uid"]
        job = self._jobs.get(uid)
        if job is None:
            job = self._jobs[uid] = RecordedJob(name=entry["name"], uid=uid, spec={})
            job.admitted, self._admitted_ahead = self._admitted_ahead, False
        if "spec" in entry:
            job.spec = entry["spec"]
        job.exists = entry["ev"] != "DELETED"
        job.final = job.final or _is_final(entry["kind"], entry.get("status") or {})
        if entry["ev"] == "DELETED":
            return
        was_suspended = bool(job.body) and self._adapter.is_suspended(self._decode(job))
        meta |= {"name": job.name, "namespace": self._namespace}
        meta["resourceVersion"] = str(entry["rv"])
        if job.released_at is not None:
            stamp = job.released_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            meta["annotations"] = {**meta.get("annotations", {}), RELEASED_AT: stamp}
        job.body = {"metadata": meta, "spec": job.spec, "status": entry.get("status") or {}}
        for path, value in (entry.get("suspend") or {}).items():
            _put(job.body, path.split("."), value)
        if self._adapter.is_suspended(self._decode(job)) and not was_suspended:
            job.admitted = False  # revoked

    def _on_child(self, entry: Json) -> None:
        self._note_owner(entry["metadata"].get("uid", ""), entry["metadata"])
        key = (entry["kind"], entry["name"])
        if entry["ev"] == "DELETED":
            self._children.pop(key, None)
            return
        spec = entry.get("spec") or self._children.get(key, {}).get("spec") or {}
        self._children[key] = {"metadata": entry["metadata"], "spec": spec}

    def _on_pod(self, entry: Json) -> None:
        uid = entry["uid"]
        self._note_owner(uid, entry)
        if entry["ev"] == "DELETED":
            self._pods.pop(uid, None)
            return
        known = self._pods.get(uid, {})
        meta = {
            "name": entry["name"],
            "namespace": self._namespace,
            "uid": uid,
            "labels": entry.get("labels") or {},
            "annotations": entry.get("annotations") or known.get("annotations") or {},
            "deletionTimestamp": entry.get("deletionTimestamp"),
        }
        spec = {"nodeName": entry.get("nodeName") or ""}
        self._pods[uid] = {
            "metadata": meta,
            "spec": spec,
            "status": {"phase": entry.get("phase") or ""},
            "annotations": meta["annotations"],
        }

    def _note_owner(self, uid: str, holder: Json) -> None:
        for owner in holder.get("ownerReferences") or ():
            if owner.get("controller") or len(holder["ownerReferences"]) == 1:
                self._owners[uid] = owner["uid"]

    # --- the machine ------------------------------------------------------------------------

    def _look(self, job: RecordedJob, entry: Json) -> Iterator[Line]:
        facts = self._facts(job)
        names = [each.name for each in facts.pod_sets] if facts else []
        pods = count_pods(self._pods_of(job), lambda pod: pod_set_of_pod(self._adapter, pod, names))
        state = judge_job(facts, pods, admitted=job.admitted, believed=False)
        if not state.unclear:
            job.quiet_since = None
        elif job.quiet_since is None:
            job.quiet_since = entry["t"]
        elif entry["t"] - job.quiet_since >= SILENT_SECONDS:
            state = judge_job(facts, pods, admitted=job.admitted, believed=True)
        if facts is not None and _follows(state, job, facts):
            job.pod_sets = facts.pod_sets
        line = Line(
            self._file, job.name, job.uid, entry["t"], entry["rv"], state, pods, job.pod_sets
        )
        self._check(job, line)
        shown = {key: line.shown()[key] for key in ("state", "resumable", "pods_alive", "pod_sets")}
        if shown != job.shown:
            job.shown = shown
            yield line

    def _facts(self, job: RecordedJob) -> JobFacts | None:
        if not job.exists:
            return None
        return read_facts(self._adapter, self._decode(job), held_by_annotation=False)

    def _decode(self, job: RecordedJob) -> Any:
        decoded = msgspec.convert(job.body, self._adapter.object_type)
        if not isinstance(self._adapter, NeedsOther):
            return decoded
        other = self._adapter.other_of(decoded)
        if other is None:
            return decoded
        body = self._children.get((other.kind, other.name))
        if body is None:
            return decoded
        return self._adapter.with_other(decoded, msgspec.convert(body, other.object_type))

    def _pods_of(self, job: RecordedJob) -> list[Pod]:
        return [
            msgspec.convert(body, Pod)
            for uid, body in self._pods.items()
            if self._top_of(uid) == job.uid
        ]

    def _top_of(self, uid: str) -> str:
        for _ in range(8):
            if uid not in self._owners or uid in self._jobs:
                break
            uid = self._owners[uid]
        return uid

    # --- the rules --------------------------------------------------------------------------

    def _check(self, job: RecordedJob, line: Line) -> None:
        pods = self._pods_of(job)
        at = f"{line.file} {line.name} t={line.t} rv={line.rv} {line.state.state.value}"
        rules: tuple[tuple[str, Callable[[], bool]], ...] = (
            (
                "running without a Running pod",
                lambda: (
                    line.state.state is not State.RUNNING
                    or any(p.status.phase == "Running" and not p.is_terminating for p in pods)
                ),
            ),
            (
                "resumable while a pod object is being deleted",
                lambda: not (line.state.resumable and any(p.is_terminating for p in pods)),
            ),
            (
                "free while a pod lives",
                lambda: (
                    line.state.state not in {State.HELD, State.RELEASED, State.GONE}
                    or not any(p.is_living for p in pods)
                ),
            ),
            (
                "finished before, or not since, the object's final entry",
                lambda: (line.state.state is State.FINISHED) == (job.final and job.exists),
            ),
            (
                "demand is not the sum of count times requests",
                lambda: line.shown()["demand"] == format_amounts(_sum_of(line.pod_sets)),
            ),
        )
        self.broken.extend(f"{at}: {what}" for what, holds in rules if not holds())


def _follows(state: JobState, job: RecordedJob, facts: JobFacts) -> bool:
    """Return whether the pod sets follow the job: while it is held, and when it grows."""
    if state.stopped or not job.pod_sets:
        return True
    before = {each.name: each.count for each in job.pod_sets}
    return any(each.count > before.get(each.name, 0) for each in facts.pod_sets)


def _sum_of(pod_sets: tuple[JobPodSet, ...]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in pod_sets:
        for resource, amount in pod_requests(each.template.spec).items():
            total[resource] = total.get(resource, 0) + amount * each.count
    return total


def _turns_off_suspend(body: Any) -> bool:
    """Return whether a request's body has `suspend: false`, wherever the kind has the field."""
    if isinstance(body, dict):
        return body.get("suspend") is False or any(map(_turns_off_suspend, body.values()))
    if isinstance(body, list):
        return any(map(_turns_off_suspend, body))
    return False


def _is_final(kind: str, status: Json) -> bool:
    """Return whether a status is final, without the adapter, so that the two can disagree."""
    if kind not in FINAL_WORDS:
        return any(
            each.get("type") in FINAL_CONDITIONS and each.get("status") == "True"
            for each in status.get("conditions") or ()
        )
    path, words = FINAL_WORDS[kind]
    value: Any = status
    for name in path:
        value = (value or {}).get(name)
    return isinstance(value, str) and value in words


def _put(body: Json, path: Sequence[str], value: Any) -> None:
    """Set a field, or remove it for None; objects on the path are copied, not changed."""
    for name in path[:-1]:
        body[name] = dict(body.get(name) or {})
        body = body[name]
    if value is None:
        body.pop(path[-1], None)
    else:
        body[path[-1]] = value


def _start_of(entries: Sequence[Json]) -> datetime:
    """Return the wall time of t = 0, as no time in an entry is later than the entry itself.

    Times in objects are truncated to seconds, so the highest lower bound is the best.
    """
    best = datetime.fromtimestamp(0, UTC)
    for entry in entries:
        texts = [(entry.get("metadata") or {}).get("creationTimestamp")]
        status = entry.get("status") if isinstance(entry.get("status"), dict) else {}
        conditions = (status or {}).get("conditions") or ()
        texts += [each.get("lastTransitionTime") for each in conditions if isinstance(each, dict)]
        for text in texts:
            if text:
                best = max(best, datetime.fromisoformat(text) - timedelta(seconds=entry["t"]))
    return best


# --- the command --------------------------------------------------------------------------------


def load(path: Path) -> Json:
    """Return the decoded file, unpacked if its name ends in .gz."""
    data = path.read_bytes()
    decoded: Json = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return decoded


def adapter_of(recording: Json) -> GenericJob[Any]:
    """Return the adapter of the recorded kind, by the apiVersion of its first object if it has one.

    Raises:
        LookupError: No extension handles the kind.
    """
    bodies = (each["body"] for each in recording["entries"] if each.get("do") == "create")
    created: Json = next(bodies, {})
    api_version = created.get("apiVersion", "")
    known = [each for each in EXTENSIONS if each.kind.kind == recording["kind"]]
    exact = [each for each in known if each.kind.api_version == api_version]
    if not (exact or known):
        raise LookupError(f"no extension for kind {recording['kind']}")
    return (exact or known)[0]


def replay(path: Path) -> tuple[list[Line], list[str]]:
    """Return the lines of one file, and the violations of the rules."""
    recording = load(path)
    run = Replay(path.name, recording, adapter_of(recording))
    return list(run.run()), run.broken


def main(arguments: Sequence[str]) -> int:
    """Replay the files; print the lines and the result."""
    if not arguments:
        print("usage: python -m tests.contracts.operator_recordings FILE...", file=sys.stderr)
        return 2
    passed = failed = 0
    for name in arguments:
        try:
            lines, broken = replay(Path(name))
        except (OSError, ValueError, LookupError, TypeError) as error:
            lines, broken = [], [f"{name}: {error!r}"]
        for line in lines:
            print(json.dumps(line.shown()))
        for text in broken:
            print(text, file=sys.stderr)
        passed, failed = passed + (not broken), failed + bool(broken)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
