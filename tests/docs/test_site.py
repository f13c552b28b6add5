"""The site builds without a warning, links lead somewhere, and nothing is loaded from outside."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import Route

from tests.docs.site_extension import MADE, MAKERS, contents, within_site
from tests.page.window_kit import started_chromium
from tests.tidy.source_tree import ROOT
from tests.tidy.user_pages import read_pages

pytestmark = pytest.mark.timeout(900)
"""The first test builds the site: ten seconds on an idle machine."""

BUILD_SECONDS: Final = 600.0
LOADS: Final = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
"""Elements that load something, and by which attribute."""


class Page(HTMLParser):
    """What a page refers to, and what a strict Content-Security-Policy would refuse."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.refused: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag."""
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in LOADS and LOADS[tag] in found:
            self.loads.append(found[LOADS[tag]])
        inline = tag == "style" or (tag == "script" and "src" not in found)
        if inline or "style" in found or any(name.startswith("on") for name in found):
            self.refused.append(self.get_starttag_text() or tag)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    options = ("--builder", "html", "--fail-on-warning", "--keep-going", "--nitpicky", "--quiet")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, "docs", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def pages_of(site: Path) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_page_is_on_the_site_and_links_lead_somewhere(site: Path) -> None:
    pages = pages_of(site)
    names = {
        path.relative_to("docs") for path in read_pages(of_users=True) if path.parts[0] == "docs"
    }
    assert {str(name) for name in names if site / name.with_suffix(".html") not in pages} == set()
    lost = {
        (str(path.relative_to(site)), link)
        for path, page in pages.items()
        for link in page.links
        if not leads_somewhere(path, link, pages)
    }
    assert lost == set()


def leads_somewhere(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    page = pages.get(target)
    anchor = unquote(parts.fragment)
    return target.exists() and (not anchor or (page is not None and anchor in page.ids))


def test_nothing_is_loaded_from_outside_or_written_into_a_page(site: Path) -> None:
    pages = pages_of(site)
    assert {
        each for page in pages.values() for each in page.loads if urlsplit(each).netloc
    } == set()
    assert {each for page in pages.values() for each in page.refused} == set()
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"url\(\s*['\"]?(?:https?:)?//|@import", styles) == []


def test_the_search_needs_no_server(site: Path) -> None:
    assert (site / "searchindex.js").read_text(encoding="utf-8").startswith("Search.setIndex(")
    assert "backfil" in (site / "searchindex.js").read_text(encoding="utf-8")
    options = (site / "_static/documentation_options.js").read_text(encoding="utf-8")
    assert "SHOW_SEARCH_SUMMARY: false" in options  # a summary is fetched, which files cannot be


def test_every_table_of_the_reference_is_on_a_page() -> None:
    texts = "\n".join(read_pages(of_users=True).values())
    assert sorted(MADE.findall(texts)) == sorted(MAKERS)


def test_the_lists_of_the_index_are_the_contents() -> None:
    listed = "- [A](a.md): x\n- [B](b/c.md#d)\n- [E](e/f.md): y\n"
    index = f"# T\n\nAbout.\n\n## One\n\n{listed}\n## Two\n\nNo links.\n"
    assert contents(index) == ":::{toctree}\n:hidden:\n:caption: One\n\na\ne/f\n:::\n"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "[its README](../../charts/README.md#x)",
            "its README (`charts/README.md`)",
            id="outside",
        ),
        pytest.param(
            "[queues.yaml](../../crds/queues.yaml)", "`crds/queues.yaml`", id="by its name"
        ),
        pytest.param("[jobs](../jobs.md#x)", "[jobs](../jobs.md#x)", id="another page"),
        pytest.param(
            "[web](https://koordinator.sh)", "[web](https://koordinator.sh)", id="the web"
        ),
    ],
)
def test_links_that_leave_the_pages_become_paths(text: str, want: str) -> None:
    assert within_site(text, "reference/kinds") == want


POLICY: Final = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:"
HOST: Final = "http://docs.example/"


def test_a_browser_finds_pages_behind_a_strict_policy_and_in_files(site: Path) -> None:
    def serve(route: Route) -> None:
        path = site / urlsplit(route.request.url).path.lstrip("/")
        route.fulfill(path=path, headers={"Content-Security-Policy": POLICY})

    said: list[str] = []
    with started_chromium() as browser:
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.route(f"{HOST}**", serve)
        for start in (HOST, f"{site.as_uri()}/"):
            page.goto(f"{start}search.html?q=backfill")
            page.locator("#search-results li a").first.wait_for()
            page.goto(f"{start}index.html")
    assert said == []
