"""Where a login is needed: a token goes out once, and nothing of it stays in the browser."""

from __future__ import annotations

from playwright.sync_api import Route

from tests.page.test_views import assert_sound
from tests.page.window_kit import Window, without_statuses

USER = "system:serviceaccount:research:jane"
KNOWN = {"user": USER, "login": True, "readsAll": False, "whatIf": True}
REFUSED = {"detail": "the token is not accepted"}
TOKEN = "secret-token"


class Sessions:
    """Stands in for the server's sessions: the token `TOKEN` is accepted."""

    def __init__(self, window: Window) -> None:
        self.is_open = False
        self.bodies: list[str] = []
        window.page.route("**/page/session", self._answer)

    def _answer(self, route: Route) -> None:
        request = route.request
        if request.method == "POST":
            self.bodies.append(request.post_data or "")
            self.is_open = TOKEN in self.bodies[-1]
        elif request.method == "DELETE":
            self.is_open = False
            route.fulfill(status=204)
            return
        if self.is_open:
            route.fulfill(json=KNOWN)
        else:
            route.fulfill(status=401, json=REFUSED)


def log_in(window: Window, token: str) -> None:
    """Send a token."""
    window.page.get_by_label("Kubernetes token").fill(token)
    window.page.get_by_role("button", name="Log in").click()


def test_who_logs_in_sees_what_was_asked_for(window: Window) -> None:
    sessions = Sessions(window)
    window.open("/queues/vision")
    window.has_title("Log in")
    assert window.page.get_by_role("navigation").count() == 0
    window.complaints[:] = without_statuses(window.complaints, 401)
    assert_sound(window, "login")
    log_in(window, TOKEN)
    window.page.get_by_role("heading", name="Queue vision").wait_for()
    assert sessions.bodies == [f'{{"token":"{TOKEN}"}}']
    window.sees(USER)
    stored = window.page.evaluate(
        "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"
    )
    assert TOKEN not in stored
    assert_sound(window, "queue-logged-in")


def test_a_wrong_token_is_said_to_be_wrong(window: Window) -> None:
    Sessions(window)
    window.open("/login")
    log_in(window, "wrong")
    window.page.get_by_role("alert").get_by_text("the token is not accepted").wait_for()
    log_in(window, TOKEN)
    window.page.get_by_role("heading", name="Overview").wait_for()
    assert window.page.url.endswith("/")


def test_a_logout_leads_to_the_login(window: Window) -> None:
    sessions = Sessions(window)
    sessions.is_open = True
    window.open("/")
    window.page.get_by_role("button", name="Log out").click()
    window.page.get_by_label("Kubernetes token").wait_for()
    assert not sessions.is_open


def test_a_session_that_ends_leads_to_the_login(window: Window) -> None:
    sessions = Sessions(window)
    sessions.is_open = True
    window.open("/what-if")
    window.answer("/page/overview", REFUSED, 401)
    window.page.get_by_role("link", name="Overview").click()
    window.page.get_by_label("Kubernetes token").wait_for()


def test_a_stream_that_is_refused_leads_to_the_login(window: Window) -> None:
    sessions = Sessions(window)
    sessions.is_open = True
    window.open("/what-if")
    sessions.is_open = False
    window.answer("/page/events", REFUSED, 401)
    window.page.get_by_label("Kubernetes token").wait_for()


def test_a_namespace_that_may_not_be_read_is_refused_in_words(window: Window) -> None:
    words = "you may not list the units of namespace 'other'"
    window.answer("/page/units/other/secret", {"detail": words}, 403)
    window.open("/units/other/secret")
    window.sees(words)
    assert window.page.get_by_role("button", name="Try again").count() == 0
    window.complaints[:] = without_statuses(window.complaints, 403)
    assert_sound(window, "unit-refused")
