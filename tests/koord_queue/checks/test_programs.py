from __future__ import annotations

import pytest

from koord_queue.checks.facts import Answer
from koord_queue.checks.programs import CONTROLLERS_LEASE, SCHEDULER_LEASE, version_of
from queue_controllers.configuration import PROGRAM
from queue_scheduler.configuration import LEASE
from tests.koord_queue.checks.healthy import (
    Json,
    ago,
    condition,
    deployment,
    finding_texts,
    found,
    lease,
    listed,
)

REFUSED = Answer(right="list deployments")


def stuck() -> Json:
    one = deployment("scheduler", ready=0)
    one["status"]["conditions"] = [condition("Progressing", "False", message="no image")]
    return one


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(listed(deployment("scheduler")), "ok: ready: koord-queue", id="ready"),
        pytest.param(
            listed(deployment("controllers")),
            "problem: no scheduler is installed in namespace koord-queue",
            id="no scheduler in this namespace",
        ),
        pytest.param(
            listed(stuck()),
            "problem: none of the pods of koord-queue is ready: no image",
            id="no pod is ready",
        ),
        pytest.param(
            listed(deployment("scheduler", replicas=0)),
            "problem: koord-queue is scaled to 0",
            id="scaled to nothing",
        ),
        pytest.param(
            listed(deployment("scheduler", replicas=2)),
            "warning: 1 of 2 pods of koord-queue are ready",
            id="one of two replicas",
        ),
        pytest.param(
            REFUSED, "unknown: they cannot be seen: you may not list deployments", id="no right"
        ),
    ],
)
def test_the_pods_of_the_programs_are_judged(answer: Answer, want: str) -> None:
    assert finding_texts("programs", deployments=answer) == [want]


URL = "http://127.0.0.1:19876"
MISSING = "problem: no scheduler is installed in namespace koord-queue"


@pytest.mark.parametrize(
    ("facts", "want"),
    [
        pytest.param(
            {"server_url": URL, "debug_api": Answer({"items": []})},
            f"ok: a scheduler answers at {URL}; it was not installed by the chart",
            id="it answers",
        ),
        pytest.param(
            {"server_url": URL, "debug_api": Answer(failure="connection refused")},
            f"{MISSING}, and none answers at {URL}: connection refused",
            id="it does not answer",
        ),
        pytest.param(
            {"server_url": URL},
            f"{MISSING}, and none answers at {URL}: it has no debug API",
            id="something else answers",
        ),
        pytest.param(
            {"server_url": URL, "debug_api": Answer(right=f"read {URL}")},
            "unknown: no scheduler is installed in namespace koord-queue; whether one runs at"
            f" {URL}: you may not read it",
            id="it does not answer this user",
        ),
        pytest.param(
            {"leases": listed(lease("koord-queue-scheduler"))},
            "ok: a scheduler renews lease koord-queue-scheduler; it was not installed by the chart",
            id="it renews its lease",
        ),
        pytest.param(
            {"leases": listed(lease("koord-queue-scheduler", ago(seconds=60)))},
            MISSING,
            id="it has stopped to renew its lease",
        ),
    ],
)
def test_a_scheduler_that_the_chart_has_not_installed(facts: Json, want: str) -> None:
    assert finding_texts("programs", deployments=listed(), **facts) == [want]


def test_leases_of_programs_that_the_chart_has_not_installed_are_judged() -> None:
    leases = listed(
        lease("koord-queue-scheduler"), lease("koord-queue-controllers", ago(seconds=60))
    )
    (finding,) = found("leases", deployments=listed(), leases=leases)
    assert finding.text.startswith("lease koord-queue-controllers was last renewed 60 s ago")
    assert finding.fix == "the log of the program"


def test_the_usual_names_of_leases_are_those_of_the_programs() -> None:
    assert (SCHEDULER_LEASE, CONTROLLERS_LEASE) == (LEASE, PROGRAM)


def scheduler(release: str, namespace: str, *args: str, replicas: int = 1) -> Json:
    one = deployment("scheduler", *args, replicas=replicas)
    one["metadata"] |= {"name": release, "namespace": namespace}
    one["metadata"]["labels"]["app.kubernetes.io/instance"] = release
    return one


OWN = scheduler("koord-queue", "koord-queue")
BOTH = "both decide about the same units"
ALONE = ["ok: there is no other installation in this cluster"]


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(listed(OWN), ALONE, id="one"),
        pytest.param(listed(OWN, scheduler("s", "b", "--shadow")), ALONE, id="a shadow watches"),
        pytest.param(listed(OWN, scheduler("s", "b", replicas=0)), ALONE, id="one that is off"),
        pytest.param(
            listed(scheduler("night", "batch"), OWN),
            [f"problem: batch/night is of another installation: {BOTH}"],
            id="in another namespace",
        ),
        pytest.param(
            listed(OWN, scheduler("night", "koord-queue")),
            [f"problem: koord-queue/night is of another installation: {BOTH}"],
            id="in the same namespace",
        ),
        pytest.param(
            REFUSED,
            ["unknown: whether there is another installation: you may not list deployments"],
            id="no right",
        ),
    ],
)
def test_a_second_installation_is_found(answer: Answer, want: list[str]) -> None:
    assert finding_texts("alone", schedulers=answer) == want


def test_it_is_mended_by_uninstalling_it() -> None:
    (finding,) = found("alone", schedulers=listed(OWN, scheduler("night", "batch")))
    assert finding.fix == "helm uninstall night --namespace batch"


HELD = "ok: renewed in time: koord-queue-lease"
STOPPED = "problem: lease koord-queue-lease was last renewed {}, by a: it has stopped"
NOT_READY = "the program is not running, or is not ready"


@pytest.mark.parametrize(
    ("leases", "want"),
    [
        pytest.param(listed(lease(renewed=ago(seconds=14))), HELD, id="it leads"),
        pytest.param(listed(lease(renewed=ago(seconds=-2))), HELD, id="by a clock that is ahead"),
        pytest.param(
            listed(lease(renewed=ago(seconds=16))), STOPPED.format("16 s ago"), id="it has stopped"
        ),
        pytest.param(listed(lease(renewed="x")), STOPPED.format("never"), id="never renewed"),
        pytest.param(
            listed(lease("other")),
            f"problem: lease koord-queue-lease does not exist: {NOT_READY}",
            id="the program has never led",
        ),
        pytest.param(
            listed(lease(holder="")),
            f"problem: lease koord-queue-lease has no holder: {NOT_READY}",
            id="it released the lease",
        ),
        pytest.param(
            Answer(right="list leases"),
            "unknown: they cannot be read: you may not list leases",
            id="no right",
        ),
    ],
)
def test_a_lease_shows_whether_its_program_runs(leases: Answer, want: str) -> None:
    assert finding_texts("leases", leases=leases) == [want]


def test_a_lease_without_a_duration_lasts_as_long_as_the_default() -> None:
    old = lease(renewed=ago(seconds=16))
    del old["spec"]["leaseDurationSeconds"]
    assert finding_texts("leases", leases=listed(old)) == [STOPPED.format("16 s ago")]


def test_a_program_that_is_not_elected_has_no_lease() -> None:
    alone = listed(deployment("scheduler", "--leader-elect=false"))
    assert finding_texts("leases", deployments=alone, leases=listed()) == [
        "ok: no program takes one"
    ]
    assert finding_texts("leases", deployments=REFUSED) == [
        "unknown: their names are unknown: you may not list deployments"
    ]


def test_another_version_is_a_warning() -> None:
    assert finding_texts("versions") == ["ok: 0.1.0 here, and of all programs"]
    assert finding_texts("versions", version="0.1.7") == ["ok: 0.1.7 here, and of all programs"]
    [other] = found("versions", version="0.2.0")
    want = "koord-queue is 0.1.0, this command line 0.2.0: answers may lack fields"
    assert (other.text, other.fix) == (want, "pip install 'koord-queue==0.1.0'")
    assert finding_texts("versions", deployments=REFUSED)[0].startswith("unknown")


def test_without_a_program_its_lease_and_version_are_unknown() -> None:
    assert finding_texts("leases", deployments=listed()) == [
        "unknown: their names are unknown: no program was found"
    ]
    assert finding_texts("versions", deployments=listed()) == [
        "unknown: no program was found; this command line is 0.1.0"
    ]


@pytest.mark.parametrize(
    ("image", "want"),
    [
        pytest.param("registry:5000/koord-queue:1.2.3", "1.2.3", id="the tag"),
        pytest.param("koord-queue:1.2.3@sha256:00", "1.2.3", id="a tag and a digest"),
        pytest.param("registry:5000/koord-queue@sha256:00", "", id="a digest alone"),
    ],
)
def test_without_a_label_the_image_says_the_version(image: str, want: str) -> None:
    one = deployment("scheduler")
    one["metadata"]["labels"] = {}
    one["spec"]["template"]["spec"]["containers"][0]["image"] = image
    assert version_of(one) == want
    one["metadata"]["labels"] = {"app.kubernetes.io/version": "9.9.9"}
    assert version_of(one) == "9.9.9"
