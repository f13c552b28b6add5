"""The page with a login: a server that knows tokens, and who may list units where."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from queue_insight.page.page_app import Login
from queue_insight.page.sessions import Sessions
from shared_api.access_review import AccessReviewer
from tests.queue_insight.page.page_kit import PATIENCE_SECONDS, PageWorld, served_page
from tests.queue_scheduler.shell_kit import ShellKit

TENANT, ROOT = "token-of-ann", "token-of-root"


class LoginWorld(PageWorld):
    """A world whose visitors log in: ann may read `default`, root all.

    Attributes:
        readable: The namespaces that each user may read; `""` is all.
        askers: The users who may ask what if.
    """

    def __init__(self, kit: ShellKit) -> None:
        super().__init__(kit.shared, kit.clock)
        self.reviews = kit.server.reviews
        self.reviews.users |= {TENANT: {"username": "ann"}, ROOT: {"username": "root"}}
        self.readable: dict[str, set[str]] = {"ann": {"default"}, "root": {""}}
        self.askers = {"root"}
        self.reviews.allows = self._allows
        self.sessions = Sessions(kit.clock)
        self.login = Login(self.sessions, AccessReviewer(kit.client, kit.clock))

    def _allows(self, spec: dict[str, Any]) -> bool:
        if "nonResourceAttributes" in spec:
            assert spec["nonResourceAttributes"] == {"path": "/debug/what-if", "verb": "create"}
            return spec["user"] in self.askers
        asked = spec["resourceAttributes"]
        assert (asked["verb"], asked["resource"]) == ("list", "queueunits")
        return asked["namespace"] in self.readable.get(spec["user"], set())


class Browser(httpx.Client):
    """A client that sends what a browser sends with requests of the page's own scripts.

    The page is served without TLS here, and no browser would send the cookie: this one does.

    Args:
        url: Of the page.
        address: The address of this machine that it asks from.
    """

    def __init__(self, url: str, address: str = "127.0.0.1") -> None:
        headers = {"origin": url, "sec-fetch-site": "same-origin"}
        super().__init__(
            base_url=url,
            headers=headers,
            timeout=PATIENCE_SECONDS,
            trust_env=False,
            transport=httpx.HTTPTransport(local_address=address),
        )

    def log_in(self, token: str) -> httpx.Response:
        """Log in; keep the cookie."""
        answer = self.post("/page/session", json={"token": token})
        sent = answer.headers.get("set-cookie", "").partition(";")[0]
        if sent:
            self.headers["cookie"] = sent
        return answer


@contextmanager
def browser(world: PageWorld, token: str = "") -> Iterator[Browser]:
    """Serve a page, and yield a browser; `token`: of the user who logs in."""
    with served_page(world) as url, Browser(url) as client:
        if token:
            assert client.log_in(token).status_code == 200
        yield client
