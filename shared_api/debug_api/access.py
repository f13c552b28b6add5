"""Guards of the debug APIs.

On a plain loopback address, every request that names this machine as its host is allowed: its
sender may port-forward to the pod, or is on the machine. So is a page in a user's browser. But a
page cannot send a request with a host name other than its own, even if that name has been made to
resolve to this machine (DNS rebinding). So the host name is checked.

On any other address, every request needs a bearer token of the cluster and a right that the program
defines: for answers about one namespace the scheduler requires `list queueunits` there, for answers
about one job the controllers require `get` on it, and both require `get` on the path for all
others (`create` for a POST). The right to a path that every cluster lets all users get is never
reviewed: upstream's paths below `/apis` need the right to those that tell the same. Information
about units in other namespaces is shown only to users who may list them there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from shared_api.authorization.authorizer import Authorizer
from shared_api.authorization.rights import PathRight, Right, list_units_in

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The names by which the header Host may refer to this machine."""

MAX_NAMESPACES: Final = 16
"""Most namespaces whose permission one answer checks, if the caller may not read all of them: each
may cost two requests."""

GRANTED_TO_ALL: Final = ("/api", "/apis", "/healthz", "/livez", "/openapi", "/readyz", "/version")
"""Paths, each with all below it, that every cluster lets all of its users get (ClusterRoles
`system:discovery` and `system:public-info-viewer`): the right to get them tells nobody apart."""

SAME_AS: Final[Mapping[str, str]] = {
    "/apis/v1/queue": "/debug/queues",
    "/apis/v1/userquota": "/debug/quotas",
}
"""Upstream's paths, and where the same is told."""

EVERYWHERE: Final = ""
"""In place of a namespace: all of them, as in a SubjectAccessReview."""

MayRead = Callable[[str], bool]
"""Returns whether the caller may read the units of a namespace."""

RightOf = Callable[[Request], Right]
"""Returns the right that a request needs."""


def list_units_there(request: Request) -> Right:
    """Return the right to read what a path is about.

    It is `list queueunits` for a path about one namespace; for any other a verb on the path, `get`,
    or `create` for a POST.
    """
    namespace = str(request.path_params.get("namespace", ""))
    return list_units_in(namespace) if namespace else right_on_path(request)


def right_on_path(request: Request) -> PathRight:
    """Return the right to ask a path: `get`, or `create` for a POST.

    For a path that all users of a cluster may get, it is the right on another one below `/debug`.
    """
    verb = "create" if request.scope.get("method") == "POST" else "get"
    return PathRight(_path_to_review(request.url.path), verb)


def _path_to_review(path: str) -> str:
    if path in SAME_AS:
        return SAME_AS[path]
    is_granted = any(path == each or path.startswith(f"{each}/") for each in GRANTED_TO_ALL)
    return f"/debug{path}" if is_granted else path


def may_read_for(access: Callable[[Request], None], request: Request) -> MayRead:
    """Return a function that says which namespaces may be read: all, if no token is needed.

    The right to read all of them is reviewed first, and each by itself only without it.
    """
    if not isinstance(access, ReviewedAccess):
        return lambda _: True
    return ask_once_per_namespace(lambda namespace: access.may_list(request, namespace))


def ask_once_per_namespace(may_list: MayRead) -> MayRead:
    """Return `may_list` with its answers cached, asking first about all namespaces together.

    Args:
        may_list: Returns whether the caller may read the units of a namespace, or of all of them
            (`EVERYWHERE`).
    """
    answers: dict[str, bool] = {}

    def may_read(namespace: str) -> bool:
        if not answers:
            answers[EVERYWHERE] = may_list(EVERYWHERE)
        if answers[EVERYWHERE]:
            return True
        if namespace not in answers:
            answers[namespace] = len(answers) <= MAX_NAMESPACES and may_list(namespace)
        return answers[namespace]

    return may_read


def check_right(access: Callable[[Request], None], request: Request, right: Right) -> None:
    """Check one more right of the caller; where no token is needed there is nothing to check.

    Raises:
        HTTPException: The caller does not have it, or the API server cannot be asked.
    """
    if isinstance(access, ReviewedAccess):
        access.require(request, right)


def open_access(request: Request) -> None:
    """Let every request pass."""


class LocalAccess:
    """Allows requests that name this machine as their host; a `Guard`.

    Args:
        hosts: Further allowed host names, without port.
    """

    def __init__(self, hosts: Collection[str] = ()) -> None:
        self._hosts = LOCAL_HOSTS | {each.lower() for each in hosts}

    def __call__(self, request: Request) -> None:
        """Let the request pass, or raise HTTPException."""
        host = request.headers.get("host", "")
        if name_of_host(host) not in self._hosts:
            detail = (
                f"the header Host says {host!r}, which is no name of this machine: "
                "ask for localhost or 127.0.0.1, or add the name to --debug-hosts"
            )
            raise HTTPException(HTTPStatus.MISDIRECTED_REQUEST.value, detail)


def name_of_host(host: str) -> str:
    """Return the name in a header Host, without its port and in lower case."""
    name = host.strip().lower()
    port = name.rpartition(":")[2]
    return name.removesuffix(f":{port}") if port.isdecimal() else name


class ReviewedAccess:
    """Lets a caller read what the API server permits it to read; a `Guard`.

    Args:
        authorizer: Asks the API server.
        right_of: Returns the right that a request needs.
    """

    def __init__(self, authorizer: Authorizer, right_of: RightOf = list_units_there) -> None:
        self._authorizer = authorizer
        self._right_of = right_of

    def may_list(self, request: Request, namespace: str) -> bool:
        """Return whether the caller may list the units of a namespace."""
        authorization = request.headers.get("authorization", "")
        result = self._authorizer.judge_bearer(authorization, list_units_in(namespace))
        return result.status is HTTPStatus.OK

    def __call__(self, request: Request) -> None:
        """Let the request pass, or raise HTTPException."""
        self.require(request, self._right_of(request))

    def require(self, request: Request, right: Right) -> None:
        """Let a request pass whose caller has this right, or raise HTTPException."""
        authorization = request.headers.get("authorization", "")
        result = self._authorizer.judge_bearer(authorization, right)
        if result.status is not HTTPStatus.OK:
            raise HTTPException(result.status.value, result.detail)
        request.state.user = self._authorizer.cached_user(authorization)
