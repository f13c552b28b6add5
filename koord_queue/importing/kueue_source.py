"""Reads Kueue's objects, and jobs with its labels, from a cluster or from files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import yaml

from koord_queue.errors import CommandError
from koord_queue.importing.kueue_jobs import (
    BY_HAND,
    SUSPENDED,
    MovedJob,
    cron_jobs_by_hand,
    move_job,
    runs_in,
)
from koord_queue.importing.kueue_objects import GROUP, PLURALS, VERSIONS, KueueObjects, read_objects
from koord_queue.importing.plan import Lost, Plan
from koord_queue.reach.errors import Missing, NotServed, Refused
from koord_queue.reach.resources import Resources
from shared_api.well_known_labels import KUEUE_QUEUE_NAME, QUOTA_NAME

if TYPE_CHECKING:
    from koord_queue.reach.cluster import Cluster, Query

Json = dict[str, Any]

LABELED: Final[Query] = (("labelSelector", KUEUE_QUEUE_NAME),)
IN_QUOTAS: Final[Query] = (("labelSelector", QUOTA_NAME),)


class FoundJobs(NamedTuple):
    """The jobs with Kueue's labels.

    Attributes:
        moved: Those that can be taken over; those that run come first.
        lost: Why others cannot.
        unread: Kinds that may not be listed, each as a sentence.
        running: Those that run in the quotas that are made of Kueue's objects, without its labels.
    """

    moved: list[MovedJob]
    lost: list[Lost]
    unread: list[str]
    running: list[MovedJob]


def read_cluster(cluster: Cluster) -> KueueObjects:
    """Return Kueue's objects in a cluster, in the first version that it serves.

    Raises:
        CommandError: Kueue's kinds are not served, or may not be listed.
    """
    served = [version for version in VERSIONS if _serves(cluster, version)]
    if not served:
        raise CommandError(
            f"the server has no ClusterQueues ({GROUP}): Kueue is not installed",
            "Read its objects from files: --file FILE.",
        )
    found: list[Json] = []
    for version in served[:1]:
        for kind, plural in PLURALS.items():
            found += _list(cluster, f"/apis/{GROUP}/{version}/{plural}", f"{GROUP}/{version}", kind)
    return read_objects(found)


def read_files(paths: Iterable[str]) -> KueueObjects:
    """Return Kueue's objects in files of YAML or JSON; other objects are left out.

    Raises:
        CommandError: A file cannot be read, or has no object of Kueue's.
    """
    objects = read_objects(document for path in paths for document in _documents(path))
    if objects == KueueObjects():
        raise CommandError(f"no object of {GROUP} is in {', '.join(paths)}")
    return objects


def read_jobs(cluster: Cluster, objects: KueueObjects, plan: Plan) -> FoundJobs:
    """Return the jobs of all namespaces that have Kueue's label, or run without it.

    Args:
        cluster: The API server.
        objects: Kueue's.
        plan: What they become.

    Raises:
        CommandError: The server cannot be asked.
    """
    found = FoundJobs([], [], [], [])
    names = frozenset(each.metadata.name for each in objects.cluster_queues)
    quotas = names & plan.quotas
    resources = Resources(cluster)
    for api_version, kind in (*SUSPENDED, *BY_HAND):
        try:
            path = resources.find(api_version, kind).path("")
            bodies = list(_list(cluster, path, api_version, kind, LABELED))
            if (api_version, kind) in SUSPENDED:
                others = _list(cluster, path, api_version, kind, IN_QUOTAS)
                found.running.extend(filter(None, (runs_in(each, quotas) for each in others)))
        except Missing:
            continue
        except Refused as error:
            found.unread.append(f"{kind}: {error.message}")
            continue
        for body in bodies:
            match move_job(body, objects, quotas):
                case MovedJob() as moved:
                    found.moved.append(moved)
                case Lost() as lost:
                    found.lost.append(lost)
                case None:
                    pass
    found.lost.extend(cron_jobs_by_hand(_cron_jobs(cluster, found.unread)))
    found.moved.sort(key=lambda each: each.state != "runs")
    return found


def _cron_jobs(cluster: Cluster, unread: list[str]) -> list[Json]:
    try:
        return list(_list(cluster, "/apis/batch/v1/cronjobs", "batch/v1", "CronJob"))
    except Refused as error:
        unread.append(f"CronJob: {error.message}")
        return []


def _serves(cluster: Cluster, version: str) -> bool:
    try:
        Resources(cluster).find(f"{GROUP}/{version}", "ClusterQueue")
    except (Missing, NotServed):
        return False
    return True


def _list(
    cluster: Cluster, path: str, api_version: str, kind: str, query: Query = ()
) -> Iterator[Json]:
    """Yield the objects of a kind; items of a list do not say what they are."""
    try:
        for page in cluster.pages(path, query):
            for each in msgspec.json.decode(page).get("items") or ():
                yield {**each, "apiVersion": api_version, "kind": kind}
    except (Missing, NotServed):
        return


def _documents(path: str) -> Iterator[Json]:
    try:
        found = list(yaml.load_all(Path(path).read_bytes(), yaml.CSafeLoader))
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    for document in found:
        yield from _objects(path, document)


def _objects(path: str, document: object) -> Iterator[Json]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise CommandError(f"{path}: an object has no kind")
    if document["kind"] == "List" or isinstance(document.get("items"), list):
        for each in document.get("items") or ():
            yield from _objects(path, each)
        return
    yield document
