"""An installation of the chart with everything on, its users, and units that wait.

The programs are processes with the arguments, configurations, accounts and rights of the chart's
Deployments; policies, flow schemas and the APIService are the chart's as well. The cluster has
no controllers, so the roles of `edit` and `view` are bound one by one instead of aggregated.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from shared_api.quantity import unit_value
from shared_api.testing.object_builders import job_body, queue_unit_body
from tests.charts.render import as_manifest, of_kind, render
from tests.cluster.front_proxy_files import FrontProxyFiles
from tests.cluster.program_process import CONTROLLERS, INSIGHT, SCHEDULER, ProgramProcess
from tests.cluster.queue_world import JOBS, OWN_TIMES_SECONDS, QUEUE_NAMESPACE, UNITS, QueueWorld
from tests.cluster.rbac_objects import binding
from tests.cluster.visibility_world import API_SERVICE, SERVICE, create_service
from tests.controlplane.control_plane import free_port
from tests.flood.http_connection import NEW_TOKEN, Endpoint
from tests.flood.questions import CROWD, NAMESPACE, VISIBILITY, Asked, Port, User
from tests.tls_files import CERTIFICATE, KEY, client_context
from tests.waiting import until

Json = dict[str, Any]

TLS: Final = {"tls": {"secretName": "a-certificate"}}
VALUES: Final[Json] = {
    "insight": {
        "enabled": True,
        "visibility": {"enabled": True},
        "page": {"enabled": True, "expose": True, **TLS},
    },
    "debugApi": {"expose": True, **TLS},
    "controllers": {"debugApi": {"expose": True, **TLS}},
}
"""Every port, each as others can reach it."""
NOT_APPLIED: Final = frozenset(
    ("CustomResourceDefinition", "Deployment", "Pod", "Service", "ServiceAccount")
)
"""What needs controllers or kubelets, or is there already."""
MODULES: Final = {"scheduler": SCHEDULER, "insight": INSIGHT, "controllers": CONTROLLERS}
"""The program of each container."""
OWN_PORTS: Final = ("--health-address", "--metrics-address")
"""What each process serves on loopback as elsewhere: neither asks for a login there."""
CALM_NAMESPACE: Final = "team-b"
"""Of the user that asks something cheap."""
CALM: Final = "calm"
"""The quota of that namespace's unit and job."""
WAITS: Final = "waits"
"""The unit, and the job, of that namespace."""
STREAM: Final = "stream"
"""The quota, and the namespace, of the jobs that start."""
STREAM_CPU: Final = 1000
JOB: Final = "of-the-flood"
BYSTANDER: Final = "rita"
NEWCOMERS: Final = ("nina", "noel")
"""Users that log in again and again, which ends the oldest of their sessions: one that is to be
let in, and one of the flood's."""
NAMES: Final = {User.EDIT: "ed", User.VIEW: "vera", User.NO_RIGHTS: "noah"}
"""The users of the API server that each kind is; the admin is its own, strangers are none."""


@dataclass(frozen=True)
class FloodWorld:
    """The cluster.

    Attributes:
        world: Its control plane.
        programs: The programs by their containers' names.
        limits: The memory that the chart allows each of them, in MiB.
        endpoints: The ports.
        cookies: The sessions of the page, by user.
        units: How many units wait.
        since: When the record begins.
    """

    world: QueueWorld
    programs: Mapping[str, ProgramProcess]
    limits: Mapping[str, int]
    endpoints: Mapping[Port, Endpoint]
    cookies: Mapping[str, str]
    units: int
    since: datetime

    def asked_by(self, user: User, port: Port) -> Asked:
        """Return what a user asks a port about, and with which headers."""
        unit = _unit_name(self.units - 1)
        if user is User.STRANGER:
            bearer = {"Authorization": f"Bearer {NEW_TOKEN}"}
            return Asked(unit, JOB, {**bearer, **self._headers(port, "")})
        token = self.world.plane.token_for(NEWCOMERS[1])
        return Asked(unit, JOB, self.headers(NAMES.get(user, "admin"), port), token)

    def headers(self, name: str, port: Port) -> dict[str, str]:
        """Return the headers with which a user of the API server asks a port."""
        bearer = {"Authorization": f"Bearer {self.world.plane.token_for(name)}"}
        return {**({} if port is Port.PAGE else bearer), **self._headers(port, name)}

    def _headers(self, port: Port, name: str) -> dict[str, str]:
        if port is not Port.PAGE:
            return {}
        cookie = self.cookies.get(name)
        # Without it a request that changes something is one of another site.
        origin = {"Origin": f"https://{self.endpoints[port].name}"}
        return {**origin, **({"Cookie": cookie} if cookie else {})}

    def is_available(self) -> bool:
        """Return whether the API server passes requests on to the aggregated API."""
        found = self.world.api.find(API_SERVICE) or {}
        conditions = found.get("status", {}).get("conditions", ())
        return any(each["status"] == "True" and each["reason"] == "Passed" for each in conditions)


@contextmanager
def flood_world(binaries: Path, units: int) -> Iterator[FloodWorld]:
    """Start everything; return when every port answers, and `units` units wait.

    Args:
        binaries: The control plane's.
        units: How many are to wait.
    """
    containers, accounts = _containers(), {_account_of(name): name for name in MODULES}
    names = (BYSTANDER, *NEWCOMERS, *NAMES.values())
    users: dict[str, Sequence[str]] = dict.fromkeys(names, ())
    users |= dict.fromkeys(accounts, ("system:serviceaccounts",))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        flags = FrontProxyFiles(folder).flags()
        with (
            QueueWorld(binaries, users=users, api_server_flags=flags) as world,
            ExitStack() as stack,
        ):
            _install(world)
            create_service(world)
            _create_quotas(world)
            since = datetime.now(UTC)
            programs = dict[str, ProgramProcess]()
            for each in MODULES:
                arguments = _arguments(world, each, containers[each]["args"], folder)
                programs[each] = _program(world, each, arguments, folder)
                stack.callback(programs[each].stop)
                programs[each].start()
                programs[each].wait_until_ready()
            _create_what_waits(world, units)
            endpoints = _endpoints(world, programs)
            cookies = _log_in(world, endpoints[Port.PAGE])
            limits = {each: _limit_of(containers[each]) for each in MODULES}
            made = FloodWorld(world, programs, limits, endpoints, cookies, units, since)
            until(made.is_available, OWN_TIMES_SECONDS)
            until(lambda: _all_wait(made), OWN_TIMES_SECONDS)
            yield made


def _containers() -> dict[str, Json]:
    deployments = of_kind(render(VALUES, namespace=QUEUE_NAMESPACE), "Deployment").values()
    pods = [each["spec"]["template"]["spec"] for each in deployments]
    return {each["name"]: each for pod in pods for each in pod["containers"]}


def _account_of(container: str) -> str:
    suffix = "-controllers" if container == "controllers" else ""
    return f"system:serviceaccount:{QUEUE_NAMESPACE}:koord-queue{suffix}"


def _limit_of(container: Json) -> int:
    return unit_value(container["resources"]["limits"]["memory"]) >> 20


def _install(world: QueueWorld) -> None:
    """Apply what the chart installs, and give the users their roles."""
    objects = render(VALUES, namespace=QUEUE_NAMESPACE)
    applied = [each for each in objects if each["kind"] not in NOT_APPLIED]
    kubectl = world.plane.kubectl
    for name in (NAMESPACE, CALM_NAMESPACE, STREAM):
        kubectl("create", "namespace", name)
    kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(applied))
    roles = world.api.request("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles")["items"]
    view, edit = (_aggregated_to(roles, role) for role in ("view", "edit"))
    bindings = [
        *(binding(role, NAMES[User.VIEW], NAMESPACE) for role in view),
        *(binding(role, NAMES[User.EDIT], NAMESPACE) for role in {*view, *edit}),
        *(binding(role, BYSTANDER, CALM_NAMESPACE) for role in view),
        binding("koord-queue-metrics-reader", BYSTANDER),
    ]
    kubectl("apply", "--server-side", "--filename", "-", input=as_manifest(bindings))


def _aggregated_to(roles: Sequence[Json], role: str) -> list[str]:
    """Return the roles of which a cluster's controllers would make this one."""
    label = f"rbac.authorization.k8s.io/aggregate-to-{role}"
    return [
        each["metadata"]["name"]
        for each in roles
        if each["metadata"].get("labels", {}).get(label) == "true" and "aggregationRule" not in each
    ]


def _program(
    world: QueueWorld, container: str, arguments: Sequence[str], folder: Path
) -> ProgramProcess:
    """Return a program with its account, not yet started."""
    config = folder / f"{container}.kubeconfig"  # an account's name would be a list of paths
    config.write_bytes(world.plane.kubeconfig_for(_account_of(container)).read_bytes())
    return ProgramProcess(
        MODULES[container],
        config,
        folder / f"{container}.log",
        arguments,
        ports=OWN_PORTS,
    )


def _arguments(
    world: QueueWorld, container: str, arguments: Sequence[str], folder: Path
) -> list[str]:
    """Return what a program is told by its container, but with ports and files of this machine."""
    sockets, port = _made(folder / "sockets"), free_port()
    here = {
        "--config": str(_files_of(world, container, folder)),
        "--socket-dir": sockets,
        "--insight-socket-dir": sockets,
        "--record-dir": _made(folder / "record"),
        "--debug-address": "0.0.0.0:0",
        "--debug-tls-certificate": CERTIFICATE,
        "--debug-tls-key": KEY,
        "--page-address": "0.0.0.0:0",
        "--page-tls-certificate": CERTIFICATE,
        "--page-tls-key": KEY,
        "--visibility-address": f"127.0.0.1:{port}",
        "--visibility-service": f"{QUEUE_NAMESPACE}/{SERVICE}:{port}",
    }
    said = dict(each.split("=", 1) for each in arguments)
    return [
        f"{flag}={here.get(flag, value)}" for flag, value in said.items() if flag not in OWN_PORTS
    ]


def _files_of(world: QueueWorld, container: str, folder: Path) -> Path:
    name = _account_of(container).rpartition(":")[2]
    at = f"/api/v1/namespaces/{QUEUE_NAMESPACE}/configmaps/{name}"
    path = folder / f"{name}.yaml"
    path.write_text(world.api.request("GET", at)["data"]["config.yaml"])
    return path


def _made(folder: Path) -> str:
    folder.mkdir(exist_ok=True)
    return str(folder)


def _create_quotas(world: QueueWorld) -> None:
    world.create_quota(CROWD, cpu_max=1)
    world.create_quota(CALM, cpu_max=1)
    world.create_quota(STREAM, cpu_max=STREAM_CPU)
    world.plane.create_nodes(1, cpu=str(2 * STREAM_CPU), memory="1Ti", name_prefix="large")


def _create_what_waits(world: QueueWorld, units: int) -> None:
    """Create a unit that runs in each of two quotas, and those that wait behind it."""
    bodies = [
        queue_unit_body(
            _unit_name(number),
            namespace=NAMESPACE,
            quota=CROWD,
            requests={"cpu": 1 + number % 4, "memory": f"{1 + number % 7}Gi"},
            priority=number % 5,
        )
        for number in range(units + 1)
    ]
    world.api.create_all(UNITS.format(NAMESPACE), bodies)
    calm = [
        queue_unit_body(name, namespace=CALM_NAMESPACE, quota=CALM, requests={"cpu": 1})
        for name in ("runs", WAITS)
    ]
    world.api.create_all(UNITS.format(CALM_NAMESPACE), calm)
    for name, namespace, quota in ((JOB, NAMESPACE, CROWD), (WAITS, CALM_NAMESPACE, CALM)):
        body = job_body(name, namespace=namespace, quota=quota, requests={"cpu": 1})
        world.api.create_all(JOBS.format(namespace), [body])


def _unit_name(number: int) -> str:
    return f"unit-{number:05}"


def _endpoints(world: QueueWorld, programs: Mapping[str, ProgramProcess]) -> dict[Port, Endpoint]:
    def at(program: str, flag: str, *, is_tls: bool = False) -> Endpoint:
        return Endpoint(until(lambda: programs[program].port_of(flag)), is_tls)

    api_server = urlsplit(world.plane.url)
    assert api_server.port is not None, "it has one"
    return {
        Port.SCHEDULER_DEBUG: at("scheduler", "--debug-address", is_tls=True),
        Port.SCHEDULER_METRICS: at("scheduler", "--metrics-address"),
        Port.SCHEDULER_HEALTH: at("scheduler", "--health-address"),
        Port.CONTROLLERS_DEBUG: at("controllers", "--debug-address", is_tls=True),
        Port.CONTROLLERS_METRICS: at("controllers", "--metrics-address"),
        Port.CONTROLLERS_HEALTH: at("controllers", "--health-address"),
        Port.PAGE: at("insight", "--page-address", is_tls=True),
        Port.AGGREGATED: Endpoint(api_server.port, is_tls=True),
        Port.INSIGHT_API: at("insight", "--visibility-address", is_tls=True),
        Port.INSIGHT_METRICS: at("insight", "--metrics-address"),
        Port.INSIGHT_HEALTH: at("insight", "--health-address"),
    }


def _log_in(world: QueueWorld, page: Endpoint) -> dict[str, str]:
    """Return a cookie of the page for each user."""
    url = f"https://{page.name}"

    def session(name: str) -> str:
        sent = {"token": world.plane.token_for(name)}
        origin = {"Origin": url}
        trusted = client_context()
        answer = httpx.post(
            f"{url}/page/session", json=sent, headers=origin, verify=trusted, trust_env=False
        )
        return ";".join(f"{each.name}={each.value}" for each in answer.cookies.jar)

    return {
        name: until(partial(session, name), OWN_TIMES_SECONDS)
        for name in ("admin", BYSTANDER, *NAMES.values())
    }


def _all_wait(made: FloodWorld) -> bool:
    """Return whether the aggregated API lists all units that wait, and those have their reasons."""
    asked = f"{VISIBILITY}/queues/{CROWD}/pendingunits?limit=1"
    page = made.world.api.request("GET", asked)
    listed: int = 1 + page["metadata"].get("remainingItemCount", 0)
    return listed >= made.units
