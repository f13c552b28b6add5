"""Which pods operators make of their jobs, and which objects in between: as recorded.

Objects in between are suspended and resumed with the job, or made and deleted with each run. Those
that are Jobs are the real Job controller's, and so are their pods.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final, NamedTuple

from tests.cluster.played_statuses import cluster_name

Json = dict[str, Any]

OF: Final = "koord-queue.test/of"
"""Label of all that is made of a job, for the tests to find: its name."""
RUN_SECONDS: Final = "koord-queue.test/run-seconds"
LONG: Final = "3600"
STOP_SECONDS: Final = "koord-queue.test/stop-seconds"


class Made(NamedTuple):
    """What an operator makes of a job as it starts, or before that."""

    path: str
    """Of the collection, below the namespace's."""
    body: Json
    stays: bool = False
    """Made before the first run, suspended, and there until the job goes."""


def owner_of(body: Json) -> Json:
    """Return the reference to an object that controls another."""
    meta = body["metadata"]
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": meta["name"],
        "uid": meta.get("uid", ""),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def template_of(body: Json, template: Json, **labels: str) -> Json:
    """Return a job's pod template with an operator's labels; its pods run until they are ended."""
    meta, spec = template.get("metadata", {}), deepcopy(template["spec"])
    spec.setdefault("restartPolicy", "Never")
    return {
        "metadata": {
            "labels": {**meta.get("labels", {}), **labels, OF: body["metadata"]["name"]},
            "annotations": {**meta.get("annotations", {}), RUN_SECONDS: LONG},
        },
        "spec": spec,
    }


def pod(name: str, template: Json, owner: Json) -> Made:
    """Return a pod of a template; it restarts nothing, so that its end is its end."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name, "ownerReferences": [owner]},
        "spec": {**template["spec"], "restartPolicy": "Never"},
    }
    return Made("pods", body)


def child_job(name: str, template: Json, owner: Json, *, pods: int, suspend: bool) -> Json:
    """Return a Job between a job and its pods."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {OF: template["metadata"]["labels"][OF]},
            "ownerReferences": [owner],
        },
        "spec": {
            "suspend": suspend,
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 0,
            "template": template,
        },
    }


# --- Kubeflow -----------------------------------------------------------------------------------

_JOB: Final = "training.kubeflow.org/job-name"
_ROLE: Final = "training.kubeflow.org/job-role"
_TYPE: Final = "training.kubeflow.org/replica-type"
_OPERATOR: Final = "training.kubeflow.org/operator-name"


def pods_of_roles(body: Json) -> list[Made]:
    """The kinds of the training-operator: all pods are the job's own."""
    field = next(each for each in body["spec"] if each.endswith("ReplicaSpecs"))
    name, made = body["metadata"]["name"], []
    for role, spec in body["spec"][field].items():
        labels = {
            _JOB: name,
            _TYPE: role.lower(),
            _OPERATOR: f"{body['kind'].lower()}-controller",
        }
        template = template_of(body, spec["template"], **labels)
        names = (f"{name}-{role.lower()}-{number}" for number in range(spec.get("replicas", 1)))
        made += [pod(each, template, owner_of(body)) for each in names]
    return made


def pods_of_mpi_job(body: Json) -> list[Made]:
    """MPIJob of the mpi-operator: workers of its own, and a launcher's Job that stays."""
    name, specs = body["metadata"]["name"], body["spec"]["mpiReplicaSpecs"]
    labels = {_JOB: name, _OPERATOR: "mpi-operator"}
    launcher = template_of(body, specs["Launcher"]["template"], **labels, **{_ROLE: "launcher"})
    job = child_job(f"{name}-launcher", launcher, owner_of(body), pods=1, suspend=True)
    worker = template_of(body, specs["Worker"]["template"], **labels, **{_ROLE: "worker"})
    workers = range(specs["Worker"].get("replicas", 1))
    return [
        Made("jobs", job, stays=True),
        *(pod(f"{name}-worker-{number}", worker, owner_of(body)) for number in workers),
    ]


_SET_NAME: Final = "jobset.sigs.k8s.io/jobset-name"
_REPLICATED: Final = "jobset.sigs.k8s.io/replicatedjob-name"


def pods_of_job_set(body: Json) -> list[Made]:
    """JobSet: its Jobs are there, suspended, from the beginning."""
    name, made = body["metadata"]["name"], []
    for each in body["spec"]["replicatedJobs"]:
        spec = each["template"]["spec"]
        labels = {_SET_NAME: name, _REPLICATED: each["name"]}
        template = template_of(body, spec["template"], **labels)
        for number in range(each.get("replicas", 1)):
            job_name, pods = f"{name}-{each['name']}-{number}", spec.get("parallelism", 1)
            job = child_job(job_name, template, owner_of(body), pods=pods, suspend=True)
            made.append(Made("jobs", job, stays=True))
    return made


def job_set_of_train_job(body: Json) -> Json:
    """Return what Trainer makes of a TrainJob: its runtime has one replicated job."""
    trainer, name = body["spec"]["trainer"], body["metadata"]["name"]
    container = {
        "name": "node",
        "image": trainer["image"],
        "resources": trainer["resourcesPerNode"],
    }
    template: Json = {"metadata": {}, "spec": {"restartPolicy": "Never", "containers": [container]}}
    if name_of_class := body["metadata"].get("annotations", {}).get(RUNTIME_CLASS):
        template["spec"]["priorityClassName"] = name_of_class
    for patch in body["spec"].get("runtimePatches", []):
        for each in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            added = each["template"]["spec"]["template"].get("metadata", {})
            template["metadata"].update(deepcopy(added))
    nodes = trainer["numNodes"]
    spec = {"parallelism": nodes, "completions": nodes, "backoffLimit": 0, "template": template}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "labels": {OF: name}, "ownerReferences": [owner_of(body)]},
        "spec": {
            "suspend": True,
            "replicatedJobs": [{"name": "node", "template": {"spec": spec}}],
        },
    }


RUNTIME_CLASS: Final = "koord-queue.test/runtime-class"
"""The priority class of a TrainJob's pods is its runtime's; here it names it itself."""


# --- Ray ----------------------------------------------------------------------------------------

_AUTOSCALER: Final = {
    "name": "autoscaler",
    "image": "none",
    "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}},
}


def _pods_of_cluster(body: Json, spec: Json, name: str, owner: Json) -> list[Made]:
    labels = {"ray.io/cluster": name, "ray.io/is-ray-node": "yes"}
    head = {**labels, "ray.io/group": "headgroup", "ray.io/node-type": "head"}
    template = template_of(body, spec["headGroupSpec"]["template"], **head)
    if spec.get("enableInTreeAutoscaling"):
        template["spec"]["containers"].append(_AUTOSCALER)
    made = [pod(f"{name}-head", template, owner)]
    for group in spec["workerGroupSpecs"]:
        of_group = {**labels, "ray.io/group": group["groupName"], "ray.io/node-type": "worker"}
        worker = template_of(body, group["template"], **of_group)
        numbers = range(group["replicas"] * group.get("numOfHosts", 1))
        made += [pod(f"{name}-{group['groupName']}-{n}", worker, owner) for n in numbers]
    return made


def pods_of_ray_cluster(body: Json) -> list[Made]:
    """RayCluster."""
    return _pods_of_cluster(body, body["spec"], body["metadata"]["name"], owner_of(body))


def ray_cluster_of(body: Json, spec: Json) -> Json:
    """Return the RayCluster that a RayJob or RayService makes for a run."""
    name = body["metadata"]["name"]
    labels = {"ray.io/originated-from-cr-name": name, "ray.io/originated-from-crd": body["kind"]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": cluster_name(body),
            "labels": {**labels, OF: name},
            "ownerReferences": [owner_of(body)],
        },
        "spec": deepcopy(spec),
    }


def pods_of_ray_child(body: Json, cluster: Json) -> list[Made]:
    """Return the pods of such a RayCluster."""
    name = cluster["metadata"]["name"]
    return _pods_of_cluster(body, cluster["spec"], name, owner_of(cluster))


def submitter_of(body: Json) -> Made:
    """Return the Job by which a RayJob submits what it runs."""
    name = body["metadata"]["name"]
    resources = {"requests": {"cpu": "500m", "memory": "200Mi"}}
    container = {"name": "ray-job-submitter", "image": "none", "resources": resources}
    labels = {"ray.io/originated-from-cr-name": name, "ray.io/originated-from-crd": "RayJob"}
    template = template_of(body, {"spec": {"containers": [container]}}, **labels)
    return Made("jobs", child_job(name, template, owner_of(body), pods=1, suspend=False))


# --- others -------------------------------------------------------------------------------------


def driver_of(body: Json) -> Made:
    """Return the driver of a SparkApplication."""
    return _spark_pod(body, "driver", f"{body['metadata']['name']}-driver", owner_of(body))


def executors_of(body: Json, driver: Json) -> list[Made]:
    """Return the executors, which the driver makes."""
    name = driver["metadata"]["name"]
    numbers = range(1, body["spec"]["executor"]["instances"] + 1)
    return [_spark_pod(body, "executor", f"{name}-exec-{n}", owner_of(driver)) for n in numbers]


def _spark_pod(body: Json, role: str, name: str, owner: Json) -> Made:
    said = body["spec"][role]
    labels = {
        "spark-role": role,
        "sparkoperator.k8s.io/app-name": body["metadata"]["name"],
        **said.get("labels", {}),
    }
    container = {
        "name": role,
        "image": body["spec"]["image"],
        "resources": {"requests": {"cpu": str(said["cores"]), "memory": "1Gi"}},
    }
    given = {"metadata": {"annotations": said.get("annotations", {})}}
    template = template_of(body, {**given, "spec": {"containers": [container]}}, **labels)
    return pod(name, template, owner)


def pods_of_workflow(body: Json) -> list[Made]:
    """Workflow: two steps side by side; those of an earlier run have ended, and are still there."""
    name, spec = body["metadata"]["name"], body["spec"]
    (step,) = (each for each in spec["templates"] if each["name"] == "work")
    template = {
        "metadata": spec.get("podMetadata", {}),
        "spec": {"containers": [{"name": "main", **step["container"]}]},
    }
    labels = {"workflows.argoproj.io/workflow": name}
    marked = template_of(body, template, **labels)
    run = body["metadata"]["generation"]
    return [pod(f"{name}-{each}-{run}", marked, owner_of(body)) for each in ("left", "right")]


def objects_of_wrapper(body: Json) -> list[Made]:
    """AppWrapper: a Job and a pod, with what is said of their pod sets."""
    name, owner = body["metadata"]["name"], owner_of(body)
    labels = {"workload.codeflare.dev/appwrapper": name}
    job, watch = body["spec"]["components"]
    spec = job["template"]["spec"]
    template = template_of(body, _with_info(job, spec["template"]), **labels)
    made = child_job(f"{name}-job", template, owner, pods=spec["parallelism"], suspend=False)
    of_pod = template_of(body, _with_info(watch, watch["template"]), **labels)
    return [Made("jobs", made), pod(f"{name}-watch", of_pod, owner)]


def _with_info(component: Json, template: Json) -> Json:
    (info,) = component.get("podSetInfos") or [{}]
    given = {key: info[key] for key in ("labels", "annotations") if key in info}
    return {"metadata": given, "spec": template["spec"]}


def pods_of_widget(body: Json) -> list[Made]:
    """The declared kind of these tests."""
    name = body["metadata"]["name"]
    template = template_of(body, body["spec"]["template"], **{"example.com/widget": name})
    return [
        pod(f"{name}-{number}", template, owner_of(body))
        for number in range(body["spec"]["workers"])
    ]
