"""The chart as an archive: ``python -m tests.release.chart --output build/chart``.

With ``--repository`` and ``--digest`` its values name the image of a release by digest, so that the
chart's signature covers the image as well: a tag that is moved later changes nothing that is
installed.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.controlplane.helm import require_helm
from tests.tidy.source_tree import ROOT

CHART: Final = ROOT / "charts" / "koord-queue"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def with_image(values: str, repository: str, digest: str) -> str:
    """Return values.yaml with the image of a release; comments stay.

    Args:
        values: The text of the file.
        repository: The image's name, with its registry and without a tag.
        digest: Such as "sha256:" and 64 hexadecimal digits.

    Raises:
        ValueError: It is no digest, or the file has no such settings.
    """
    if not _DIGEST.fullmatch(digest):
        raise ValueError(f"{digest!r} is no digest")
    block = re.search(r"^image:\n(?:^ .*\n|^\n)+", values, re.MULTILINE)
    if block is None:
        raise ValueError("values.yaml has no image")
    text = block[0]
    for key, value in (("repository", repository), ("digest", f'"{digest}"')):
        text, count = re.subn(rf"^(  {key}: ).*$", rf"\g<1>{value}", text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"values.yaml has no image.{key}")
    return values.replace(block[0], text)


def package(output: Path, *, repository: str = "", digest: str = "") -> Path:
    """Write the archive into a folder and return its path; without a repository, of the checkout.

    Raises:
        ValueError: See `with_image`.
        BinariesUnavailable: There is no helm.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder) / CHART.name
        shutil.copytree(CHART, staged)
        if repository:
            values = staged / "values.yaml"
            text = with_image(values.read_text(encoding="utf-8"), repository, digest)
            values.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [require_helm(), "package", "--destination", output, staged],
            check=True,
            capture_output=True,
            text=True,
        )
    return Path(done.stdout.rpartition(": ")[2].strip())


def main() -> int:
    """Write the archive and print its path."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--repository", default="", help="the image's name, with its registry")
    parser.add_argument("--digest", default="", help="the image's digest")
    arguments = parser.parse_args()
    print(package(arguments.output, repository=arguments.repository, digest=arguments.digest))
    return 0


if __name__ == "__main__":
    sys.exit(main())
