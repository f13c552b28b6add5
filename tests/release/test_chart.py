"""The archive of the chart names the image of its release by digest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.charts.render import helm_binary
from tests.release.chart import CHART, package, with_image
from tests.release.versions import version

DIGEST = f"sha256:{'ab' * 32}"
REPOSITORY = "registry.test/team/koord-queue"
VALUES = (CHART / "values.yaml").read_text(encoding="utf-8")


def test_only_the_image_changes() -> None:
    text = with_image(VALUES, REPOSITORY, DIGEST)
    want = yaml.safe_load(VALUES)
    want["image"] |= {"repository": REPOSITORY, "digest": DIGEST}
    assert yaml.safe_load(text) == want
    assert text.count("\n") == VALUES.count("\n")


@pytest.mark.parametrize(
    ("values", "digest", "want"),
    [
        pytest.param(VALUES, "latest", "is no digest", id="a tag"),
        pytest.param("a: 1\n", DIGEST, "no image", id="no image"),
        pytest.param("image:\n  repository: x\n", DIGEST, "no image.digest", id="no digest"),
    ],
)
def test_what_cannot_be_named_is_refused(values: str, digest: str, want: str) -> None:
    with pytest.raises(ValueError, match=want):
        with_image(values, REPOSITORY, digest)


def test_every_container_of_the_archive_runs_the_digest(tmp_path: Path) -> None:
    helm = helm_binary()
    archive = package(tmp_path, repository=REPOSITORY, digest=DIGEST)
    assert archive == tmp_path / f"koord-queue-{version()}.tgz"
    rendered = subprocess.run(
        [helm, "template", "koord-queue", archive, "--set", "insight.enabled=true"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    images = {
        container["image"]
        for each in yaml.safe_load_all(rendered)
        if each and each["kind"] in {"Deployment", "Pod"}
        for spec in [each["spec"].get("template", each)["spec"]]
        for container in [*spec["containers"], *spec.get("initContainers", [])]
    }
    assert images == {f"{REPOSITORY}@{DIGEST}"}
