"""The Dockerfile follows the rules of ``tests.tidy.dockerfile``, and violations are found."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from tests.tidy.dockerfile import lint, missing_in_context
from tests.tidy.source_tree import ROOT

PATH = PurePosixPath("Dockerfile")
CLEAN = """
# syntax
FROM python:3.14-slim AS build
RUN pip install --no-cache-dir \\
    # a comment between two lines
    --no-deps --require-hashes -r requirements.txt
FROM python:3.14-slim
COPY --from=build /opt /opt
USER 65532:65532
ENTRYPOINT ["koord-queue-scheduler"]
"""


def test_the_dockerfile_is_clean() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "\n".join(map(str, lint(PATH, text))) == ""


def test_everything_that_is_copied_is_in_the_build_context() -> None:
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in ("Dockerfile", ".dockerignore")]
    assert missing_in_context(*texts) == set()


def test_what_is_not_in_the_build_context_is_found() -> None:
    text = "FROM a:1\nCOPY x.txt y ./\nCOPY --from=b /z /z\n"
    assert missing_in_context(text, "*\n!y\n") == {"x.txt"}


def test_the_example_is_clean() -> None:
    assert list(lint(PATH, CLEAN)) == []


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("FROM python:3.14-slim\n", "FROM python\n", "neither tag", id="no tag"),
        pytest.param(":3.14-slim AS", ":latest AS", "another image", id="latest"),
        pytest.param(":3.14-slim AS", ":$TAG AS", "variable", id="a tag from outside"),
        pytest.param("=build", "=ghcr.io/x/uv:latest", "another image", id="copied from latest"),
        pytest.param("USER 65532:65532", "", "as root", id="no user"),
        pytest.param("65532:65532", "0", "not 0", id="root by number"),
        pytest.param("65532:65532", "koord", "needs a number", id="a user by name"),
        pytest.param('["koord-queue-scheduler"]', "koord", "SIGTERM", id="shell form"),
        pytest.param('ENTRYPOINT ["koord-queue-scheduler"]', "", "no ENTRYPOINT", id="no program"),
        pytest.param("COPY", "ADD https://x.example/a.tar /\nCOPY", "ADD of", id="a download"),
        pytest.param("--require-hashes", "", "unlocked", id="a package without hash"),
        pytest.param("--no-deps", "", "more than it names", id="packages that no lock names"),
    ],
)
def test_broken_rules_are_found(old: str, new: str, want: str) -> None:
    findings = "\n".join(map(str, lint(PATH, CLEAN.replace(old, new))))
    assert want in findings


def test_a_port_is_not_a_tag() -> None:
    text = CLEAN.replace("FROM python:3.14-slim\n", "FROM localhost:5000/python\n")
    assert "neither tag nor digest" in "\n".join(map(str, lint(PATH, text)))
