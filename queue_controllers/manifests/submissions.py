"""The jobs of a manifest, as they would stand in the caches of the controllers. Pure.

An object that was never created lacks what the API server, admission policies and operators add.
What a unit depends on is added here: a uid, a namespace, a name for `generateName`, the queue's
gate on pods that name a queue, and the pods by which a StatefulSet or LeaderWorkerSet is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import msgspec

from queue_controllers.job_families.gated_pods import GatedPods
from queue_controllers.jobframework.generic_job import GenericJob, OtherObject
from queue_controllers.jobframework.pod_template import ScheduledPod
from shared_api.client.errors import ApiFailure
from shared_api.client.response_decoding import AnswerReader
from shared_api.manifest_documents import ManifestError
from shared_api.objects.meta import Timestamp
from shared_api.well_known_labels import (
    ADMISSION_GATE,
    LWS_GROUP,
    LWS_NAME,
    LWS_SIZE,
    LWS_WORKER,
    read_queue_name,
)

GENERATED: Final = "xxxxx"
"""Stands for the five letters that the API server appends to `generateName`."""

MAX_UNITS: Final = 100
"""Jobs of one manifest: each group of a LeaderWorkerSet is one."""

_SET_BY_SERVER: Final = frozenset(
    {
        *("uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp"),
        *("deletionGracePeriodSeconds", "managedFields", "selfLink"),
    }
)

Json = dict[str, Any]


class FieldError(msgspec.Struct, frozen=True):
    """What is wrong with an object; `field` is a path such as `spec.parallelism`, or ""."""

    field: str
    message: str


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """One object of a manifest, as the API server would store it.

    Attributes:
        number: Its place in the manifest, from 1.
        adapter: The extension of its kind, or None if no extension knows the kind.
        body: The object, without what only the API server sets.
        errors: What is wrong with it; then no job is read of it.
    """

    number: int
    api_version: str
    kind: str
    namespace: str
    name: str
    adapter: GenericJob[Any] | None
    body: Json
    errors: tuple[FieldError, ...] = ()

    @property
    def group(self) -> str:
        """Its API group."""
        return self.api_version.rpartition("/")[0]


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A job that the manifest creates.

    Attributes:
        documents: The objects that it is made of; the first one stands for it.
        adapter: The extension that reads it.
        job: The job as the extension decodes it.
    """

    documents: tuple[Document, ...]
    adapter: GenericJob[Any]
    job: Any


def read_document(
    number: int, body: Json, adapters: Iterable[GenericJob[Any]], namespace: str
) -> Document:
    """Return an object with its names, and the extension of its kind.

    Args:
        number: Its place in the manifest, from 1.
        body: The object.
        adapters: All extensions.
        namespace: The namespace of an object that names none.
    """
    api_version, kind = (_text(body.get(key)) for key in ("apiVersion", "kind"))
    given = body.get("metadata")
    meta = given if isinstance(given, dict) else {}
    kept = {key: value for key, value in meta.items() if key not in _SET_BY_SERVER}
    name = _text(meta.get("name"))
    errors = []
    if not api_version or not kind:
        errors.append(FieldError("apiVersion" if not api_version else "kind", "it is missing"))
    if not name and (start := _text(meta.get("generateName"))):
        name = start + GENERATED
    elif not name:
        errors.append(FieldError("metadata.name", "it is missing, and generateName too"))
    kept |= {"name": name, "namespace": _text(meta.get("namespace")) or namespace}
    return Document(
        number=number,
        api_version=api_version,
        kind=kind,
        namespace=kept["namespace"],
        name=name,
        adapter=_adapter_of(api_version, kind, adapters),
        body={key: value for key, value in body.items() if key != "status"} | {"metadata": kept},
        errors=tuple(errors),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _adapter_of(
    api_version: str, kind: str, adapters: Iterable[GenericJob[Any]]
) -> GenericJob[Any] | None:
    """Return the extension of a kind; of several versions the one that is written, else any."""
    group = api_version.rpartition("/")[0]
    known = [each for each in adapters if (each.kind.group, each.kind.kind) == (group, kind)]
    exact = (each for each in known if each.kind.api_version == api_version)
    return next(exact, next(iter(known), None))


class Submissions:
    """The jobs of a manifest, and what its other objects say about them.

    Args:
        documents: All objects.
        adapters: All extensions.
        now: The time of creation.
    """

    def __init__(
        self, documents: Sequence[Document], adapters: Sequence[GenericJob[Any]], now: Timestamp
    ) -> None:
        self._documents = documents
        self._gated = [each for each in adapters if isinstance(each, GatedPods)]
        self._now = now

    def others(self, namespace: str, wanted: OtherObject) -> Any | None:  # noqa: ANN401 - of any kind
        """Return an object of the manifest that describes a job's pods, or None."""
        names = (wanted.group, wanted.kind, namespace, wanted.name)
        for each in self._documents:
            if (each.group, each.kind, each.namespace, each.name) == names:
                return _decode(wanted.object_type, each.body)
        return None

    def read(self) -> Iterator[Submission | Document]:
        """Yield the jobs, and objects that are no jobs or wrong, in the order of the manifest.

        A group of pods is there when its last pod is.

        Raises:
            ManifestError: There are too many jobs.
        """
        parts: dict[tuple[int, int], Submission | Document] = {}
        groups: dict[tuple[str, str, str], Submission] = {}
        for document in self._documents:
            try:
                for number, each in enumerate(self._read(document)):
                    parts[document.number, number] = each
                    if isinstance(each, Submission) and not each.adapter.kind.has_object:
                        self._join(each, groups, parts, (document.number, number))
            except ApiFailure as failure:
                wrong = FieldError(*_place_of(str(failure)))
                broken = msgspec.structs.replace(document, errors=(wrong,))
                parts[document.number, 0] = broken
        if len(parts) > MAX_UNITS:
            raise ManifestError(f"it makes {len(parts)} jobs, at most {MAX_UNITS} are tried")
        return (each for _, each in sorted(parts.items(), key=lambda pair: pair[0]))

    def _join(
        self,
        part: Submission,
        groups: dict[tuple[str, str, str], Submission],
        parts: dict[tuple[int, int], Submission | Document],
        place: tuple[int, int],
    ) -> None:
        """Make one job of the pods of a group that are read so far, in the place of the last."""
        meta = part.job.metadata
        key = (part.adapter.kind.key, meta.namespace, meta.name)
        before = groups.get(key)
        if before is not None:
            adapter = cast("GatedPods", part.adapter)
            part = Submission(
                documents=(*before.documents, *part.documents),
                adapter=adapter,
                job=adapter.gather(meta.name, (*before.job.pods, *part.job.pods)),
            )
            parts[place] = part
            for other, each in list(parts.items()):
                if each is before:
                    del parts[other]
        groups[key] = part

    def _read(self, document: Document) -> Iterator[Submission | Document]:
        adapter = document.adapter
        if adapter is None or document.errors:
            yield document
        elif isinstance(adapter, GatedPods):
            yield from self._read_pods(document)
        else:
            body = _as_created(document.body, document.number, self._now)
            job = _decode(adapter.object_type, body)
            yield Submission(documents=(document,), adapter=adapter, job=job)

    def _read_pods(self, document: Document) -> Iterator[Submission | Document]:
        """Yield the jobs that the pods of an object are, or are a part of."""
        is_read = False
        for body in _pods_of(document):
            pod = _decode(ScheduledPod, _as_created(_with_gate(body), document.number, self._now))
            for adapter in self._gated:
                if name := adapter.group_of(pod):
                    is_read = True
                    job = adapter.gather(name, (pod,))
                    yield Submission(documents=(document,), adapter=adapter, job=job)
                    break
        if not is_read:
            yield document


# --- what the API server and operators add --------------------------------------------------------


def _as_created(body: Json, number: int, now: Timestamp) -> Json:
    meta = {**body["metadata"], "uid": uid_of(number), "creationTimestamp": now}
    return {**body, "metadata": meta}


def uid_of(number: int) -> str:
    """Return the uid that stands for that of an object which does not exist."""
    return f"00000000-0000-4000-8000-{number:012d}"


def _with_gate(pod: Json) -> Json:
    """Return a pod with the queue's gate if it names a queue, as the admission policies do it."""
    meta, spec = pod["metadata"], pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    gates = spec.get("schedulingGates") or []
    is_held = isinstance(gates, list) and {"name": ADMISSION_GATE} in gates
    if is_held or not isinstance(gates, list) or not _names_queue(meta):
        return pod
    return {**pod, "spec": {**spec, "schedulingGates": [*gates, {"name": ADMISSION_GATE}]}}


def _names_queue(meta: Json) -> bool:
    return bool(read_queue_name(_texts(meta.get("labels")), _texts(meta.get("annotations"))))


def _texts(value: object) -> Mapping[str, str]:
    mapping = value if isinstance(value, dict) else {}
    return {key: text for key, text in mapping.items() if isinstance(text, str)}


def _pods_of(document: Document) -> Iterator[Json]:
    """Yield pods by which the jobs of an object are known: itself, or those made of it first."""
    body, name = document.body, document.name
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    if document.kind == "Pod":
        yield body
    elif document.kind == "StatefulSet":
        yield _pod_of(document, spec.get("template"), f"{name}-0", {}, {})
    elif document.kind == "LeaderWorkerSet":
        groups = spec.get("leaderWorkerTemplate")
        groups = groups if isinstance(groups, dict) else {}
        template = groups.get("leaderTemplate") or groups.get("workerTemplate")
        replicas, size = spec.get("replicas", 1), groups.get("size", 1)
        for index in range(min(replicas, MAX_UNITS + 1) if isinstance(replicas, int) else 0):
            labels = {LWS_NAME: name, LWS_GROUP: str(index), LWS_WORKER: "0"}
            yield _pod_of(document, template, f"{name}-{index}", labels, {LWS_SIZE: str(size)})


def _pod_of(
    document: Document, template: object, name: str, labels: Json, annotations: Json
) -> Json:
    """Return the first pod that the controller of a StatefulSet makes of a template."""
    shape = template if isinstance(template, dict) else {}
    given = shape.get("metadata")
    meta = given if isinstance(given, dict) else {}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": document.name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": document.namespace,
            "labels": {**_texts(meta.get("labels")), **labels},
            "annotations": {**_texts(meta.get("annotations")), **annotations},
            "ownerReferences": [{**owner, "uid": uid_of(document.number), "controller": True}],
        },
        "spec": shape.get("spec", {}),
    }


# --- decoding -------------------------------------------------------------------------------------


def _decode(object_type: type[Any], body: Json) -> Any:  # noqa: ANN401 - of any kind
    """Decode an object as the caches do.

    Raises:
        UndecodableObject: It does not fit the fields that are read.
        MalformedAnswer: It is no API object.
    """
    # Its constructor holds the lock that msgspec needs while a decoder is made.
    return AnswerReader(object_type).read_object(msgspec.json.encode(body))


def _place_of(words: str) -> tuple[str, str]:
    """Return the field and the message of what a decoder says ("... - at `$.spec.replicas`")."""
    problem, _, where = words.rpartition(" - at `$")
    if not problem:
        return "", words
    return where.rstrip("`").lstrip("."), problem.partition(": ")[2] or problem
