"""The rules for the Dockerfile: ``python -m tests.tidy.dockerfile [FILE]`` prints violations.

They are what a cluster's admission and a careful reader require of an image, and can be checked
without a container engine, unlike the build.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tests.tidy.source_tree import ROOT, Finding

INSTRUCTION = re.compile(r"\s*([A-Za-z]+)\s+(.*)", re.DOTALL)
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
REMOTE_SOURCE = re.compile(r"(?:https?|ftp|git|ssh)://|git@", re.IGNORECASE)
PIP_INSTALL = re.compile(r"\bpip3?\b[^&|;]*\binstall\b[^&|;]*")


@dataclass(frozen=True)
class Instruction:
    """One instruction with joined continuation lines; ``stage`` counts from 0."""

    line: int
    word: str
    rest: str
    stage: int


def instructions(text: str) -> Iterator[Instruction]:
    """Yield the instructions of a Dockerfile without comments. Here-documents are not supported."""
    stage = -1
    start = 0
    pieces: list[str] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#") or not (line.strip() or pieces):
            continue
        start = start if pieces else number
        pieces.append(line.rstrip().removesuffix("\\"))
        if line.rstrip().endswith("\\"):
            continue
        if found := INSTRUCTION.match(" ".join(pieces)):
            word = found.group(1).upper()
            stage += word == "FROM"
            yield Instruction(start, word, found.group(2).strip(), stage)
        pieces = []


def lint(path: PurePosixPath, text: str) -> Iterator[Finding]:
    """Yield the violations of rules in a Dockerfile."""
    found = list(instructions(text))
    stages: set[str] = set()
    for instruction in found:
        for message in _complaints(instruction, stages):
            yield Finding(path, instruction.line, message)
        if instruction.word == "FROM":
            stages.add(_stage_name(instruction))
    for message in _complaints_about_last_stage(found):
        yield Finding(path, found[-1].line if found else 1, message)


def _complaints(instruction: Instruction, stages: set[str]) -> Iterator[str]:
    rest = instruction.rest
    match instruction.word:
        case "FROM":
            yield from _complaints_about_image(_words(rest)[0], stages)
        case "COPY" if source := re.search(r"--from=(\S+)", rest):
            yield from _complaints_about_image(source.group(1), stages)
        case "ADD" if REMOTE_SOURCE.search(rest):
            yield "ADD of an address: nothing checks what arrives"
        case "ENTRYPOINT" | "CMD" if not _is_exec_form(rest):
            yield f"{instruction.word} in shell form: the program would get no SIGTERM"
        case "RUN":
            for command in PIP_INSTALL.findall(rest):
                if "--no-deps" not in command:
                    yield f"asks for more than it names: {command.strip()}"
                elif "--require-hashes" not in command and " -r " in command:
                    yield f"unlocked: {command.strip()}"
        case _:
            pass


def _complaints_about_image(image: str, stages: set[str]) -> Iterator[str]:
    if image in stages or image == "scratch" or DIGEST.search(image):
        return
    tag = image.rpartition("/")[2].partition(":")[2]
    if "$" in image:
        yield f"{image}: which image is not for a variable to say"
    elif not tag:
        yield f"{image} is pinned by neither tag nor digest"
    elif tag == "latest":
        yield f"{image} is another image every week"


def _complaints_about_last_stage(found: list[Instruction]) -> Iterator[str]:
    last = [instruction for instruction in found if instruction.stage == found[-1].stage]
    users = [instruction.rest for instruction in last if instruction.word == "USER"]
    if not users:
        yield "no USER in the last stage: it would run as root"
    elif not re.fullmatch(r"[1-9][0-9]*(:[1-9][0-9]*)?", users[-1]):
        yield f"USER {users[-1]}: runAsNonRoot needs a number, and not 0"
    if not any(instruction.word == "ENTRYPOINT" for instruction in last):
        yield "no ENTRYPOINT in the last stage"


def _words(rest: str) -> list[str]:
    return [word for word in rest.split() if not word.startswith("--")] or [""]


def _stage_name(instruction: Instruction) -> str:
    words = _words(instruction.rest)
    return words[-1] if len(words) > 1 else str(instruction.stage)


def _is_exec_form(rest: str) -> bool:
    try:
        words = json.loads(rest)
    except json.JSONDecodeError:
        return False
    return isinstance(words, list) and all(isinstance(word, str) for word in words)


def missing_in_context(dockerfile: str, dockerignore: str) -> set[str]:
    """Return what is copied and not sent to the builder: .dockerignore names what is."""
    kept = {line[1:] for line in dockerignore.splitlines() if line.startswith("!")}
    copied = (
        source
        for each in instructions(dockerfile)
        if each.word == "COPY" and "--from=" not in each.rest
        for source in _words(each.rest)[:-1]
    )
    return {*copied} - kept


def main() -> int:
    """Print the findings; return 1 if there are any."""
    path = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "Dockerfile"
    findings = list(lint(PurePosixPath(path.name), path.read_text(encoding="utf-8")))
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
