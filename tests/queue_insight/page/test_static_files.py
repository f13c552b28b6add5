"""The files of the window: which of them a browser keeps, and which it asks for again."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from queue_insight.page.static_files import StaticFile, _hash_of, read_files
from tests.queue_insight.page.page_kit import PATIENCE_SECONDS, served_page
from tests.queue_scheduler.shell_kit import ShellKit

FILES = read_files()
VENDORED = sorted(path for path in FILES if path.startswith("vendor"))
OTHERS = sorted(path for path in FILES if path not in VENDORED)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with (
        served_page(ShellKit()) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False) as client,
    ):
        yield client


def test_vendored_files_are_kept_under_a_name_with_a_hash(client: httpx.Client) -> None:
    (folder,) = {path.partition("/")[0] for path in VENDORED}
    assert re.fullmatch("vendor-[0-9a-f]{16}", folder)
    for path in VENDORED:
        answer = client.get(f"/assets/{path}")
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "max-age=31536000, immutable"
    assert client.get("/assets/vendor/preact.js").status_code == 404


def test_other_files_are_asked_for_again_and_sent_once(client: httpx.Client) -> None:
    assert {"index.html", "style.css", "app/main.js"} < set(OTHERS)
    for path in OTHERS:
        answer = client.get(f"/assets/{path}")
        assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
        known = {"if-none-match": answer.headers["etag"]}
        again = client.get(f"/assets/{path}", headers=known)
        assert (again.status_code, again.content) == (304, b"")
        assert client.get(f"/assets/{path}", headers={"if-none-match": '"x"'}).status_code == 200


@pytest.mark.parametrize("path", OTHERS)
def test_each_import_and_link_leads_to_a_file(path: str) -> None:
    text = FILES[path].content.decode()
    assert "/vendor/" not in text
    named = re.findall(r'/(vendor-[0-9a-f]+/[\w.-]+)"', text)
    assert [each for each in named if each not in FILES] == []
    assert named or path not in {"index.html", "app/html.js", "app/chart.js"}


def test_another_content_has_another_name() -> None:
    files = {"vendor/a.js": b"1", "vendor/b.js": b"2"}
    others = ({**files, "vendor/a.js": b"3"}, {"vendor/a.js": b"12", "vendor/b.js": b""})
    assert len({_hash_of(each) for each in (files, *others)}) == 3
    assert _hash_of(dict(reversed(files.items()))) == _hash_of(files)


def test_a_file_is_asked_for_again_unless_it_says_otherwise() -> None:
    assert StaticFile(b"", "text/plain", '""').cache == "no-cache"


@pytest.mark.parametrize(
    "path", ["/quotas/a", "/quotas/root%2Fa", "/quotas/root%2Fa%2fb/over-time"]
)
def test_a_quota_whose_name_has_slashes_has_its_views(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (200, FILES["index.html"].content)
    known = {"if-none-match": answer.headers["etag"]}
    assert client.get(path, headers=known).status_code == 304


@pytest.mark.parametrize(
    "path",
    ["/nowhere", "/queues", "/queues/a/b", "/quotas/a/b", "/quotas/", "/over/there?at=x"],
)
def test_an_unknown_address_is_the_window_and_not_found(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.content) == (404, FILES["index.html"].content)
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    head = client.head(path)
    assert (head.status_code, head.content) == (404, b"")


@pytest.mark.parametrize("path", ["/page/nowhere", "/page/", "/assets/app/none.js"])
def test_what_is_missing_beside_views_is_json(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, list(answer.json())) == (404, ["detail"])


def test_a_wrong_method_is_not_an_unknown_address(client: httpx.Client) -> None:
    assert client.get("/page/what-if").status_code == 405
