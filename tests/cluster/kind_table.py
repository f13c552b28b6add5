"""Every kind of job that can be queued, with what its sample requests: a row for each.

Widgets stand for kinds that are declared in the configuration; their CRD is defined here.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.played_pods import LONG, OF, RUN_SECONDS, RUNTIME_CLASS
from tests.sample_jobs import OPEN_OBJECT, sample

Json = dict[str, Any]
Path = tuple[str | int, ...]
Sets = tuple[tuple[str, int], ...]

WIDGET: Final = "widget"


WIDGET_CRD: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {
            "plural": "widgets",
            "singular": "widget",
            "kind": "Widget",
            "listKind": "WidgetList",
        },
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": OPEN_OBJECT, "status": OPEN_OBJECT},
                    }
                },
            }
        ],
    },
}


@dataclass(frozen=True, kw_only=True)
class KindRow:
    """What tests know of a kind independently of its adapter.

    Args:
        key: of the extension.
        api: path of the kind's objects in the namespace.
        crd: file of its CRD, "" for none.
        sets: pod sets of the sample, in order.
        cpu: what they request together.
        count: path of the size of the last set; () where it is no number.
        larger: the sets with one more there.
        requests: path of a request of CPUs, and the value to set; () where it is fixed.
        larger_cpu: what all request after both changes.
        priority_class: path of the job's priority class.
        pods: how many pods run, where that is not the sum of the sets.
        switch: path of its suspend field.
        ends: whether such a job ends by itself.
        is_born_suspended: whether it has pods at once unless it is created suspended.
    """

    key: str
    api: str
    crd: str
    sets: Sets
    cpu: str
    count: Path
    larger: Sets
    requests: tuple[Path, Any]
    larger_cpu: str
    priority_class: Path
    pods: int = 0
    switch: Path = ("spec", "suspend")
    ends: bool = True
    is_born_suspended: bool = False

    @property
    def wanted_pods(self) -> int:
        """Return how many pods a job of the sample's size has."""
        return self.pods or sum(count for _, count in self.sets)


_REQUESTS: Final = ("resources", "requests", "cpu")
_FIRST: Final[Path] = ("template", "spec", "containers", 0, *_REQUESTS)
_CLASS: Final[Path] = ("template", "spec", "priorityClassName")


def _roles(
    key: str, field: str, sets: Sets, larger: Sets, cpus: tuple[str, str], **more: Any
) -> KindRow:
    """Return the row of a kind of kubeflow.org; `cpus`: before and after it is scaled up."""
    at = ("spec", f"{field}ReplicaSpecs")
    return KindRow(
        key=key,
        api=f"kubeflow.org/{more.pop('version', 'v1')}/{more.pop('plural', f'{key}s')}",
        crd=more.pop("crd", f"{key}s"),
        sets=sets,
        cpu=cpus[0],
        count=(*at, "Worker", "replicas"),
        larger=larger,
        requests=((*at, "Worker", *_FIRST), "3"),
        larger_cpu=cpus[1],
        priority_class=("spec", "runPolicy", "schedulingPolicy", "priorityClass"),
        switch=("spec", "runPolicy", "suspend"),
        **more,
    )


_MPI: Final = (
    (("launcher", 1), ("worker", 2)),
    (("launcher", 1), ("worker", 3)),
    ("4100m", "9100m"),
)

ROWS: Final = (
    KindRow(
        key="job",
        api="batch/v1/jobs",
        crd="",
        sets=(("main", 2),),
        cpu="2",
        count=("spec", "parallelism"),
        larger=(("main", 3),),
        requests=(("spec", *_FIRST), "2"),
        larger_cpu="6",
        priority_class=("spec", *_CLASS),
        is_born_suspended=True,
    ),
    _roles(
        "tfjob",
        "tf",
        (("chief", 1), ("ps", 2), ("worker", 4)),
        (("chief", 1), ("ps", 2), ("worker", 5)),
        ("14", "21"),
    ),
    _roles(
        "pytorchjob",
        "pytorch",
        (("master", 1), ("worker", 3)),
        (("master", 1), ("worker", 4)),
        ("8", "14"),
    ),
    _roles(
        "xgboostjob",
        "xgb",
        (("master", 1), ("worker", 2)),
        (("master", 1), ("worker", 3)),
        ("6", "11"),
    ),
    _roles("paddlejob", "paddle", (("worker", 2),), (("worker", 3),), ("4", "9")),
    _roles("jaxjob", "jax", (("worker", 4),), (("worker", 5),), ("8", "15")),
    _roles("mpijobv1", "mpi", *_MPI, plural="mpijobs", crd="mpijobs-v1"),
    _roles("mpijob", "mpi", *_MPI, version="v2beta1", crd="mpijobs-v2beta1"),
    KindRow(
        key="jobset",
        api="jobset.x-k8s.io/v1alpha2/jobsets",
        crd="jobsets",
        sets=(("driver", 1), ("workers", 8)),
        cpu="16500m",
        count=("spec", "replicatedJobs", 1, "replicas"),
        larger=(("driver", 1), ("workers", 12)),
        requests=(("spec", "replicatedJobs", 0, "template", "spec", *_FIRST), "1"),
        larger_cpu="25",
        priority_class=("spec", "replicatedJobs", 0, "template", "spec", *_CLASS),
    ),
    KindRow(
        key="trainjob",
        api="trainer.kubeflow.org/v1alpha1/trainjobs",
        crd="trainjobs",
        sets=(("node", 2),),
        cpu="8",
        count=(),  # its API refuses other sizes
        larger=(("node", 2),),
        requests=((), ""),
        larger_cpu="8",
        priority_class=("metadata", "annotations", RUNTIME_CLASS),
    ),
    KindRow(
        key="rayjob",
        api="ray.io/v1/rayjobs",
        crd="rayjobs",
        sets=(("head", 1), ("gpu", 4), ("submitter", 1)),
        cpu="17500m",
        count=("spec", "rayClusterSpec", "workerGroupSpecs", 0, "numOfHosts"),
        larger=(("head", 1), ("gpu", 6), ("submitter", 1)),
        requests=(("spec", "rayClusterSpec", "headGroupSpec", *_FIRST), "2"),
        larger_cpu="26500m",
        priority_class=("spec", "rayClusterSpec", "headGroupSpec", *_CLASS),
    ),
    KindRow(
        key="raycluster",
        api="ray.io/v1/rayclusters",
        crd="rayclusters",
        sets=(("head", 1), ("gpu", 2)),
        cpu="9500m",
        count=("spec", "workerGroupSpecs", 0, "replicas"),
        larger=(("head", 1), ("gpu", 3)),
        requests=(("spec", "headGroupSpec", *_FIRST), "2"),
        larger_cpu="14500m",
        priority_class=("spec", "headGroupSpec", *_CLASS),
        ends=False,
    ),
    KindRow(
        key="rayservice",
        api="ray.io/v1/rayservices",
        crd="rayservices",
        sets=(("head", 1), ("small", 1)),
        cpu="3",
        count=("spec", "rayClusterConfig", "workerGroupSpecs", 0, "replicas"),
        larger=(("head", 1), ("small", 2)),
        requests=(("spec", "rayClusterConfig", "headGroupSpec", *_FIRST), "2"),
        larger_cpu="6",
        priority_class=("spec", "rayClusterConfig", "headGroupSpec", *_CLASS),
        ends=False,
    ),
    KindRow(
        key="sparkapp",
        api="sparkoperator.k8s.io/v1beta2/sparkapplications",
        crd="sparkapplications",
        sets=(("driver", 1), ("executor", 3)),
        cpu="7",
        count=("spec", "executor", "instances"),
        larger=(("driver", 1), ("executor", 4)),
        requests=(("spec", "executor", "cores"), 3),
        larger_cpu="13",
        priority_class=("spec", "batchSchedulerOptions", "priorityClassName"),
        is_born_suspended=True,
    ),
    KindRow(
        key="workflow",
        api="argoproj.io/v1alpha1/workflows",
        crd="workflows",
        sets=(("default", 1),),
        cpu="4",
        count=(),
        larger=(("default", 1),),
        requests=(("metadata", "annotations", "koord-queue/min-resources"), "cpu: 5"),
        larger_cpu="5",
        priority_class=("spec", "podPriorityClassName"),
        pods=2,
    ),
    KindRow(
        key="appwrapper",
        api="workload.codeflare.dev/v1beta2/appwrappers",
        crd="appwrappers",
        sets=(("job-0", 3), ("pod-1", 1)),
        cpu="6100m",
        count=("spec", "components", 0, "podSets", 0, "replicas"),
        larger=(("job-0", 4), ("pod-1", 1)),
        requests=(("spec", "components", 1, *_FIRST), "200m"),
        larger_cpu="8200m",
        priority_class=("spec", "components", 0, "template", "spec", *_CLASS),
    ),
    KindRow(
        key=WIDGET,
        api="example.com/v1/widgets",
        crd="",
        sets=(("worker", 3),),
        cpu="3",
        count=("spec", "workers"),
        larger=(("worker", 4),),
        requests=(("spec", *_FIRST), "2"),
        larger_cpu="8",
        priority_class=("spec", *_CLASS),
    ),
)
BY_KEY: Final = {each.key: each for each in ROWS}


def set_at(body: Json, path: Path, value: Any) -> None:
    """Set a value of an object, creating the maps on the path."""
    at: Any = body
    for step in path[:-1]:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    at[path[-1]] = value


def take_at(body: Json, path: Path) -> None:
    """Remove a value, and its map if that is left empty."""
    *above, last = path
    parent = value_at(body, tuple(above))
    if parent is None:
        return
    parent.pop(last, None)
    if len(above) > 1 and not parent:
        del value_at(body, tuple(above[:-1]))[above[-1]]


def value_at(body: Json, path: Path) -> Any:
    """Return a value of an object, None where there is none."""
    at: Any = body
    for step in path:
        if at is None or (isinstance(at, dict) and step not in at):
            return None
        at = at[step]
    return at


def manifest(row: KindRow, name: str, labels: dict[str, str], *, suspend: bool) -> Json:
    """Return the sample of a kind under another name, without its own suspend field."""
    body = _own_sample(row.key, name) or deepcopy(sample(row.key))
    annotations = body["metadata"].get("annotations", {})
    body["metadata"] = {"name": name, "labels": labels, "annotations": annotations}
    set_at(body, row.switch, suspend or row.is_born_suspended)
    if row.key == "appwrapper":
        # Its controller accepts none that is set already.
        body["spec"]["components"][0]["template"]["metadata"]["name"] = f"{name}-job"
    return body


def _own_sample(key: str, name: str) -> Json | None:
    """Return the sample of a kind that has no file."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"restartPolicy": "Never", "containers": [container]}
    if key == "job":
        marked = {"labels": {OF: name}, "annotations": {RUN_SECONDS: LONG}}
        template = {"metadata": marked, "spec": spec}
        of_job = {"parallelism": 2, "backoffLimit": 0, "template": template}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": of_job}
    if key == WIDGET:
        of_widget = {"workers": 3, "template": {"spec": spec}}
        return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {}, "spec": of_widget}
    return None
