"""Flags and the configuration file of koord-queue-controllers.

The file has upstream's shape: a key per extension, and under it that extension's options. Beside
them stand options for all extensions; `manage`, `adopt` and `fullPodTemplates` an extension may
override:

    manage: namespace-quota      # labelled | namespace-quota | all
    adopt: running               # running | never
    quotaNamespaces: open        # open | listed: as the scheduler's; of jobs that run already
    fullPodTemplates: false
    scheduleAdmissionLabel: false
    reportUnqueuedJobs: false    # an event on jobs that name no queue where others are queued
    leaveToKueue: auto           # auto | true | false: jobs with the label of Kueue
    priorityFrom: any            # any | class: whether the annotation and numbers count, too
    admissionPreview: false      # ask the API server for the pods of jobs, by dry run
    reservations:
      ttl: 30m                   # how long room on nodes is kept that no pod takes
      nodeBlacklist: kube-system/kubedl-blacklist-data
    kinds:                       # without an adapter of their own (`extensions.declared_kind`)
      - apiVersion: example.com/v1
        kind: Widget
        ...
    job:
      runningTimeout: 10m        # evict a job whose pods do not run in time; 0: never
      partialRunningTimeout: 5m  # evict one of whose pods only some run for so long; 0: never
      podCreationTimeout: 5m     # evict one that has no pod at all for so long; 0: never
      backoffTimeout: 30s        # the first wait after that; doubled each time, at most 15 minutes
      backoffLimit: 6            # after so many the job is deactivated; 0: never

Unknown keys are errors that name their path. What concerns time can be set for one job by its
annotations (`decision.job_annotations`).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from queue_controllers.decision.job_settings import (
    Adopt,
    JobSettings,
    LeaveToKueue,
    Manage,
    backoff_from,
)
from queue_controllers.extensions.declared_kind import (
    DeclarationError,
    DeclaredAdapter,
    DeclaredKind,
)
from queue_controllers.reservations.reservation_settings import ReservationSettings
from shared_api.debug_api.debug_flags import DebugFlags, add_debug_flags, read_debug_flags
from shared_api.durations import DURATION_PATTERN, DurationError, parse_seconds
from shared_api.program_flags import (
    ConfigurationError,
    FlagError,
    ProgramFlags,
    add_program_flags,
    name_choices,
    parse_bool,
    read_config_file,
    read_program_flags,
    with_two_dashes,
)
from shared_api.quota_names import QuotaNamespaces
from shared_api.upstream_flags import (
    KLOG_FLAGS,
    UpstreamFlag,
    add_upstream_flags,
    read_upstream_flags,
)

PROGRAM: Final = "koord-queue-controllers"

UPSTREAM_FLAGS: Final = (
    *KLOG_FLAGS,
    UpstreamFlag("--wqqps", "what is due is worked on at once; --kube-api-qps limits the requests"),
    UpstreamFlag("--default-requeue-period", "jobs are looked at when something changes"),
    UpstreamFlag(
        "--enable-pod-reclaim", "a suspended job's pods are its operator's", is_switch=True
    ),
    UpstreamFlag(
        "--enable-network-aware", "no topologies are copied in this version", is_switch=True
    ),
)
"""Options of upstream that work differently here, or not at all."""


# What schemas say in addition to the type; errors for bad values come from `_check_durations`.
Seconds: TypeAlias = (
    Annotated[str, Meta(extra_json_schema={"pattern": f"^([0-9]+|{DURATION_PATTERN})$"})]
    | Annotated[int, Meta(extra_json_schema={"minimum": 0})]
)

_SETTINGS: Final = ReservationSettings()
_BLACKLIST: Final = f"{_SETTINGS.blacklist_namespace}/{_SETTINGS.blacklist_name}"

MAX_BACKOFF_LIMIT: Final = 2**31 - 1
"""Limit of the status field that counts."""


class ExtensionOptions(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The options under an extension's key; None: as for all extensions."""

    running_timeout: Seconds = 0
    backoff_timeout: Seconds = 0
    partial_running_timeout: Seconds = 0
    pod_creation_timeout: Seconds | None = None
    backoff_limit: Annotated[int, Meta(ge=0, le=MAX_BACKOFF_LIMIT)] = 0
    annotation: bool = False
    manage: Manage | None = None
    adopt: Adopt | None = None
    full_pod_templates: bool | None = None


class ReservationOptions(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The options of reservations (`--enable-reservation`)."""

    ttl: Seconds = "30m"
    node_blacklist: Annotated[str, Meta(pattern="^([^/]+/[^/]+)?$")] = _BLACKLIST
    node_blacklist_key: str = _SETTINGS.blacklist_key
    node_blacklist_expiry: Seconds = "12h"


KueueOption: TypeAlias = Literal["auto"] | bool


class GeneralOptions(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The options for all extensions."""

    manage: Manage | None = None
    adopt: Adopt | None = None
    quota_namespaces: QuotaNamespaces = QuotaNamespaces.OPEN
    full_pod_templates: bool = False
    schedule_admission_label: bool = False
    report_unqueued_jobs: bool = False
    priority_from: Literal["any", "class"] = "any"
    kueue: KueueOption = msgspec.field(name="leaveToKueue", default="auto")
    admission_preview: bool = False
    delete_lost_pods: bool = False
    reservations: ReservationOptions = ReservationOptions()
    kinds: tuple[DeclaredKind, ...] = ()

    @property
    def leave_to_kueue(self) -> LeaveToKueue:
        """Whether jobs with Kueue's label are left alone."""
        return LeaveToKueue(str(self.kueue).lower())


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration file, parsed."""

    general: GeneralOptions = GeneralOptions()
    extensions: dict[str, ExtensionOptions] = {}
    declared: tuple[DeclaredAdapter, ...] = ()
    """The adapters of `general.kinds`."""


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The command line, parsed."""

    program: ProgramFlags
    config: str | None
    enable_job_extensions: bool
    """Whether any kind is queued, a declared one too."""
    enabled_extensions: tuple[str, ...]
    queue_namespace: str
    workers: int
    manage: Manage | None
    adopt: Adopt | None
    leave_to_kueue: LeaveToKueue | None
    quota_namespaces: QuotaNamespaces | None
    """None if the flag is not given: the configuration file decides."""
    keep_grants: bool
    enable_reservation: bool
    debug: DebugFlags
    without_effect: Mapping[str, str]
    """Flags that were given and do nothing, each with what to use instead."""


# --- the command line ---------------------------------------------------------------------------


def parse_flags(arguments: Sequence[str]) -> Flags:
    """Parse the command line; long flags may have one dash, as Go's have.

    Raises:
        SystemExit: `--help`, or an unknown flag (argparse's own message).
        FlagError: A value is not valid.
    """
    got = _parser().parse_args(with_two_dashes(arguments))
    enabled = parse_bool("--enable-job-extensions", got.enable_job_extensions)
    names = [each.strip() for each in got.enabled_extensions.split(",")]
    manages_all = parse_bool("--manage-all-jobs", got.manage_all_jobs)
    if manages_all and got.manage not in {None, Manage.ALL.value}:
        raise FlagError(f"--manage-all-jobs and --manage {got.manage} contradict each other")
    manage = Manage.ALL.value if manages_all else got.manage
    program = read_program_flags(got, namespace=got.queue_namespace)
    workers = program.writers if got.workers is None else got.workers
    if workers < 1:
        raise FlagError(f"--workers {workers}: at least 1 is needed")
    return Flags(
        program=program,
        config=got.config,
        enable_job_extensions=enabled,
        enabled_extensions=tuple(dict.fromkeys(each for each in names if each)) if enabled else (),
        queue_namespace=got.queue_namespace,
        workers=workers,
        manage=None if manage is None else Manage(manage),
        adopt=None if got.adopt is None else Adopt(got.adopt),
        leave_to_kueue=None if got.leave_to_kueue is None else LeaveToKueue(got.leave_to_kueue),
        quota_namespaces=got.quota_namespaces and QuotaNamespaces(got.quota_namespaces),
        keep_grants=parse_bool("--keep-grants", got.keep_grants),
        enable_reservation=parse_bool("--enable-reservation", got.enable_reservation),
        debug=read_debug_flags(got),
        without_effect=read_upstream_flags(got, UPSTREAM_FLAGS),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Holds jobs back, and releases them when the queue has admitted them.",
        allow_abbrev=False,
    )
    add_program_flags(parser, lease_name=PROGRAM, metrics_address=":8080")
    add = parser.add_argument
    add("--config", help="YAML file: a key per extension")
    add(
        "--enabled-extensions",
        default="job",
        help="comma list of the kinds to queue (default: %(default)s)",
    )
    add(
        "--enable-job-extensions",
        nargs="?",
        const="true",
        default="true",
        help="false: none of them",
    )
    add(
        "--queue-namespace",
        default="koord-queue",
        help="the queue's own; never managed (default: %(default)s)",
    )
    add(
        "--workers",
        type=int,
        help="jobs of a kind that are looked at at once (default: as --writers)",
    )
    _add_treatment_flags(add)
    add(
        "--enable-reservation",
        nargs="?",
        const="true",
        default="false",
        help="reserve nodes for the units of strict queues (the scheduler's --strictDequeueMode)",
    )
    add_debug_flags(parser, address="127.0.0.1:19877")
    add_upstream_flags(parser, UPSTREAM_FLAGS)
    return parser


def _add_treatment_flags(add: Callable[..., object]) -> None:
    """Add the flags that say which jobs are managed, and how."""
    add(
        "--manage",
        choices=[each.value for each in Manage],
        help="which jobs are queued (default: namespace-quota)",
    )
    add("--manage-all-jobs", nargs="?", const="true", default="false", help="--manage all")
    add(
        "--adopt",
        choices=[each.value for each in Adopt],
        help="jobs that already run (default: running)",
    )
    add(
        "--leave-to-kueue",
        choices=[each.value for each in LeaveToKueue],
        help="jobs with the label of Kueue (default: auto, where its Workloads are served)",
    )
    add(
        "--quota-namespaces",
        choices=[each.value for each in QuotaNamespaces],
        help="which namespaces may name a quota, as the scheduler's: a job that already runs is not"
        " adopted into another (default: what the configuration file says, else open)",
    )
    add(
        "--keep-grants",
        nargs="?",
        const="true",
        default="false",
        help="a running job that is made smaller keeps the quota of the pods it may have again",
    )


# --- the file -----------------------------------------------------------------------------------


def load_configuration(path: str | None, known: Collection[str]) -> Configuration:
    """Return the configuration of a file; without one, the defaults.

    Args:
        path: Path of the file.
        known: Keys of the existing extensions.

    Raises:
        ConfigurationError: It cannot be read, is no YAML, or has an unknown key.
    """
    if not path:
        return Configuration()
    document = read_config_file(path)
    try:
        return read_configuration(document, known)
    except ConfigurationError as error:
        raise ConfigurationError(f"--config {path}: {error}") from error


def read_configuration(document: object, known: Collection[str]) -> Configuration:
    """Return the configuration of a decoded file.

    Raises:
        ConfigurationError: It has an unknown key, or a value of the wrong type.
    """
    if not isinstance(document, dict):
        raise ConfigurationError(f"a map is wanted, got {type(document).__name__}")
    ours = {field.encode_name for field in msgspec.structs.fields(GeneralOptions)}
    general: GeneralOptions = _convert(
        {key: document[key] for key in document if key in ours}, GeneralOptions, ""
    )
    declared = _read_kinds(general.kinds, known)
    extension_keys = {*known, *(each.kind.key for each in declared)}
    for key in document:
        if key not in ours and key not in extension_keys:
            choices = ", ".join(sorted({*ours, *extension_keys}))
            raise ConfigurationError(f"`{key}` is neither an option nor an extension: {choices}")
    extensions = {
        key: _convert(document[key] or {}, ExtensionOptions, key)
        for key in document
        if key not in ours
    }
    for key, options in extensions.items():
        _check_durations(key, options)
    _check_reservations(general.reservations)
    return Configuration(general=general, extensions=extensions, declared=declared)


def _read_kinds(
    kinds: Sequence[DeclaredKind], known: Collection[str]
) -> tuple[DeclaredAdapter, ...]:
    taken, adapters = set(known), []
    for index, declared in enumerate(kinds):
        try:
            adapter = DeclaredAdapter(declared)
        except DeclarationError as error:
            raise ConfigurationError(f"kinds[{index}].{error}") from error
        key = adapter.kind.key
        if key in taken:
            raise ConfigurationError(f"kinds[{index}].key: {key!r} is there already")
        taken.add(key)
        adapters.append(adapter)
    return tuple(adapters)


def settings_of(key: str, flags: Flags, configuration: Configuration) -> JobSettings:
    """Return the settings of one extension: its own options, else the flags, else the general."""
    own = configuration.extensions.get(key, ExtensionOptions())
    general = configuration.general
    full = general.full_pod_templates if own.full_pod_templates is None else own.full_pod_templates
    no_pods = own.pod_creation_timeout
    return JobSettings(
        manage=own.manage or flags.manage or general.manage or Manage.NAMESPACE_QUOTA,
        adopt=own.adopt or flags.adopt or general.adopt or Adopt.RUNNING,
        own_namespace=flags.queue_namespace,
        held_by_annotation=own.annotation,
        full_pod_templates=full,
        schedule_admission_label=general.schedule_admission_label,
        report_unqueued_jobs=general.report_unqueued_jobs,
        deletes_lost_pods=general.delete_lost_pods,
        keeps_grants=flags.keep_grants,
        running_timeout_seconds=parse_seconds(own.running_timeout),
        partial_running_timeout_seconds=parse_seconds(own.partial_running_timeout),
        pod_creation_timeout_seconds=None if no_pods is None else parse_seconds(no_pods),
        backoff=backoff_from(parse_seconds(own.backoff_timeout)),
        backoff_limit=own.backoff_limit,
    )


def checks_namespaces(flags: Flags, configuration: Configuration) -> bool:
    """Return whether quota or namespace must list the other, for jobs to name the quota."""
    configured = flags.quota_namespaces or configuration.general.quota_namespaces
    return configured is QuotaNamespaces.LISTED


def reservation_settings(configuration: Configuration) -> ReservationSettings:
    """Return the settings of reservations."""
    options = configuration.general.reservations
    namespace, _, name = options.node_blacklist.partition("/")
    return ReservationSettings(
        ttl_seconds=int(parse_seconds(options.ttl)),
        blacklist_namespace=namespace,
        blacklist_name=name,
        blacklist_key=options.node_blacklist_key,
        blacklist_seconds=parse_seconds(options.node_blacklist_expiry),
    )


def _check_durations(key: str, options: ExtensionOptions) -> None:
    for name, value in (
        ("runningTimeout", options.running_timeout),
        ("backoffTimeout", options.backoff_timeout),
        ("partialRunningTimeout", options.partial_running_timeout),
        ("podCreationTimeout", options.pod_creation_timeout or 0),
    ):
        _read_seconds(f"{key}.{name}", value)


def _check_reservations(options: ReservationOptions) -> None:
    if _read_seconds("reservations.ttl", options.ttl) < 1:
        # Koordinator takes 0 for "for ever": capacity that no pod takes would never be free again.
        raise ConfigurationError("reservations.ttl: at least 1s is needed")
    _read_seconds("reservations.nodeBlacklistExpiry", options.node_blacklist_expiry)


def _read_seconds(path: str, value: str | int) -> float:
    try:
        return parse_seconds(value)
    except DurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _convert(document: object, to: type[Any], path: str) -> Any:  # noqa: ANN401 - an instance of `to`
    try:
        return msgspec.convert(document, to)
    except msgspec.ValidationError as error:
        where = f"{path}: " if path else ""
        raise ConfigurationError(f"{where}{name_choices(error, to)}") from error
