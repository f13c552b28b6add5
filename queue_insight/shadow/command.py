"""`koord-queue shadow-report` as a user asks for it: options in, files and lines out."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import msgspec
from msgspec.structs import replace

from queue_insight.replay.jobs import TraceError
from queue_insight.replay.replayed_world import policy_names
from queue_insight.shadow.counterfactual import Counterfactual, amounts_of, build_world
from queue_insight.shadow.folder import RecordError, read_lines
from queue_insight.shadow.given_objects import Given, read_given
from queue_insight.shadow.lines import Header, Line, ObjectGone, ObjectSeen
from queue_insight.shadow.numbers import Compared
from queue_insight.shadow.quota_mapping import QuotaMapping
from queue_insight.shadow.report import build_html, build_report, report_lines, to_bytes
from queue_insight.shadow.story import JobStory, Story, read_story
from queue_scheduler.configuration import KoordQueueConfiguration, load_configuration
from shared_api.objects.queue_unit import QueueUnit


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked for; the names are those of the flags."""

    record: Path
    objects: Path | None = None
    config: Path | None = None
    policy: str = ""
    html: Path | None = None
    form: str = "text"


def run(options: Options, out: TextIO) -> None:
    """Play the record, write the page, and show the numbers.

    Raises:
        RecordError: The record is wrong.
        TraceError: An option or a file is wrong.
        ConfigurationError: The configuration file is.
    """
    if options.policy and options.policy not in (known := policy_names()):
        msg = f"--policy {options.policy}: there is no such policy; known: {', '.join(known)}"
        raise TraceError(msg)
    lines = list(read_lines(options.record))
    story = read_story(lines)
    if story.header is None:
        raise RecordError(f"{options.record}: it has no header: nothing was recorded yet")
    played = play(lines, story, _read_settings(options, story.header))
    jobs = compare(story, played)
    name = options.record.name
    report = build_report(name, story, jobs, played.engine)
    if options.html is not None:
        page = build_html(report, story, jobs, played.engine)
        try:
            options.html.write_text(page, encoding="utf-8")
        except OSError as error:
            raise TraceError(f"--html {error.filename}: {error.strerror}") from error
    if options.form == "json":
        out.write(to_bytes(report).decode())
    else:
        out.writelines(f"{line}\n" for line in report_lines(report))


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a record is played.

    Attributes:
        configuration: The scheduler's; None: the plugins that the quotas need.
        places: The quotas of jobs that name none.
        policy: The policy of all queues; "": each has its own.
        objects: Quotas, queues and nodes instead of those of the record; None: those.
    """

    configuration: KoordQueueConfiguration | None = None
    places: QuotaMapping = QuotaMapping()
    policy: str = ""
    objects: tuple[dict[str, object], ...] | None = None


def _read_settings(options: Options, header: Header) -> Settings:
    configuration = None
    if options.config is not None:
        configuration = load_configuration(str(options.config))
    elif header.configuration is not None:
        configuration = msgspec.convert(header.configuration, KoordQueueConfiguration)
    settings = Settings(configuration=configuration, places=header.places, policy=options.policy)
    if options.objects is None:
        return settings
    given: Given = read_given(options.objects)
    places = header.places if given.places is None else given.places
    return replace(settings, objects=given.bodies, places=places)


def play(lines: list[Line], story: Story, settings: Settings) -> Counterfactual:
    """Play a record until its end.

    Args:
        lines: The record.
        story: The same, as the truth about each job.
        settings: How it is played.

    Raises:
        RecordError: It has a job or an object that cannot be read.
        TraceError: There is a quota whose plugin is not configured.
        ConfigurationError: The plugins cannot be built.
    """
    first, rest = split(lines)
    objects = [each.body for each in first] if settings.objects is None else [*settings.objects]
    try:
        world = build_world(objects, settings.configuration, settings.policy)
        played = Counterfactual(world, settings.places, story.began, story.jobs)
        for line in rest:
            if settings.objects is None or not isinstance(line, ObjectSeen | ObjectGone):
                played.add(line)
        played.advance(story.until)
    except msgspec.ValidationError as error:
        raise RecordError(f"the record has an object that cannot be read: {error}") from error
    return played


def split(lines: list[Line]) -> tuple[list[ObjectSeen], list[Line]]:
    """Return the objects with which a record begins, and all that follows."""
    first: list[ObjectSeen] = []
    for number, line in enumerate(lines):
        if isinstance(line, ObjectSeen):
            first.append(line)
        elif not isinstance(line, Header):
            return first, lines[number:]
    return first, []


def compare(story: Story, played: Counterfactual) -> list[Compared]:
    """Return each job of a record in reality and in the shadow."""
    return [_compare(uid, job, played) for uid, job in story.jobs.items() if uid in played.fates]


def _compare(uid: str, job: JobStory, played: Counterfactual) -> Compared:
    return Compared(
        story=job,
        fate=played.fates[uid],
        amounts=amounts_of(msgspec.convert(job.latest.unit, QueueUnit)),
        why=played.why_waiting(uid),
    )
