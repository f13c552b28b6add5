"""Text of objects is shown as text, whatever is in it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.page.test_views import UNIT
from tests.page.window_kit import Window, without_statuses

HOSTILE = (
    "<img src=x onerror='window.pwned = 1'><script>window.pwned = 2</script>"
    "\"'><svg onload=window.pwned=3> javascript:window.pwned=4 ${window.pwned=5}"
)


def poison(value: Any) -> Any:
    """Return an answer with hostile text in place of every text but times and words of the API."""
    match value:
        case dict():
            return {key: value[key] if key in KEPT else poison(value[key]) for key in value}
        case list():
            return [poison(each) for each in value]
        case str():
            return HOSTILE
        case _:
            return value


KEPT = {"stateAt", "created", "time", "verdict", "severity", "stopPolicy", "spec", "patch"}


def assert_only_text(window: Window) -> None:
    """Check that nothing of a text became an element, or ran."""
    assert window.page.evaluate("window.pwned") is None
    assert window.page.locator("main img, main script, main svg[onload]").count() == 0
    # A handler that the Content-Security-Policy stopped would be complained about.
    assert window.complaints == []


@pytest.mark.parametrize(
    ("path", "route"),
    [
        ("/", "/page/overview"),
        ("/queues/vision", "/page/queues/vision"),
        (UNIT, f"/page{UNIT}"),
        ("/quotas/org", "/page/quotas/org"),
    ],
)
def test_hostile_text_is_only_text(window: Window, path: str, route: str) -> None:
    window.edit(route, lambda body: body.update(poison(body)))
    window.open(path)
    window.sees("onerror=")
    assert_only_text(window)
    links = window.page.locator("main a").evaluate_all("all => all.map(each => each.protocol)")
    assert set(links) <= {"http:"}


def test_a_hostile_refusal_is_only_text(window: Window) -> None:
    window.answer("/page/overview", {"detail": HOSTILE}, 503)
    window.open("/")
    window.page.get_by_role("alert").get_by_text("onerror=").wait_for()
    window.complaints[:] = without_statuses(window.complaints, 503)
    assert_only_text(window)


def test_a_hostile_address_is_only_text(window: Window) -> None:
    window.open("/queues/%3Cimg%20src=x%20onerror=window.pwned=1%3E?filter=%3Cscript%3E")
    window.sees("<img src=x onerror=window.pwned=1>")
    window.complaints[:] = without_statuses(window.complaints, 404)
    assert_only_text(window)


def test_a_command_to_copy_is_quoted_for_a_shell(window: Window) -> None:
    def add_hostile_change(body: dict[str, Any]) -> None:
        hostile = {
            "apiVersion": "v1",
            "kind": "Node",
            "namespace": "$(id)",
            "name": "a'; rm -rf ~ #",
            "patch": {"spec": "it's"},
        }
        body["changes"] = [{**body["changes"][0], "patches": [hostile]}]

    window.edit(f"/page{UNIT}/changes", add_hostile_change)
    window.open(UNIT)
    window.find_changes()
    got = window.page.locator(".changes pre", has_text="kubectl patch node").inner_text()
    want = (
        r"""kubectl patch node 'a'\''; rm -rf ~ #' --namespace '$(id)' --type merge """
        r"""--patch '{"spec":"it'\''s"}'"""
    )
    assert got == want
