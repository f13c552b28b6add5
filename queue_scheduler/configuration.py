"""Flags and the configuration file of koord-queue-scheduler.

The file has upstream's shape (`KoordQueueConfiguration`, `scheduling.k8s.io/v1`). Unknown keys are
errors that name their path: a setting that silently does not apply because of a typo is worse than
a process that does not start. Upstream's flag names are aliases.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from fractions import Fraction
from typing import Annotated, Any, Final, Protocol

import msgspec
from msgspec import UNSET, Meta, UnsetType

from queue_scheduler.queueing.fair_settings import LEAST_HALF_LIFE, MOST_HALF_LIFE
from queue_scheduler.queueing.strict_mode import SMALL_UNIT, StrictMode
from queue_scheduler.tenants.ledger import KEEP_SECONDS
from queue_scheduler.tenants.periods import Period, UnknownTimeZoneError, read_time_zone
from shared_api.debug_api.debug_flags import DebugFlags, add_debug_flags, read_debug_flags
from shared_api.durations import DURATION_PATTERN, DurationError, parse_duration, parse_seconds
from shared_api.program_flags import (
    ConfigurationError,
    FlagError,
    ProgramFlags,
    add_program_flags,
    parse_bool,
    read_config_file,
    read_program_flags,
    with_two_dashes,
)
from shared_api.quantity import QuantityError, amount
from shared_api.quota_names import QuotaNamespaces
from shared_api.upstream_flags import (
    KLOG_FLAGS,
    UpstreamFlag,
    add_upstream_flags,
    read_upstream_flags,
    values_of,
)
from shared_api.well_known_labels import (
    AVAILABLE_QUOTA_IN_NAMESPACE,
    DEFAULT_QUEUE_NAMESPACE,
    MAX_BOOST,
    MAX_EVICTIONS_PER_HOUR,
    SUBMITTED_BY,
)

API_VERSION: Final = "scheduling.k8s.io/v1"
KIND: Final = "KoordQueueConfiguration"

DEFAULT_PLUGINS: Final = ("Priority", "ElasticQuotaV2")
"""Upstream's default."""

# At most two digits of exponent: as an exact number, 1e999999999 would take hours to write out.
_RATE: Final = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,2})?")

LEASE: Final = "koord-queue-scheduler"

SMALL_UNITS_VARIABLE: Final = "SmallTaskAcclerate"
"""Upstream's name of an environment variable, including its unusual spelling."""

STRICT_PRIORITY: Final = "StrictPriority"
STRICT_CONSISTENCY: Final = "StrictConsistency"
"""Upstream's as well: the policy of queues of nodes, Block or Priority, with the same effect."""

VERDICT_TIMEOUT: Final = "30m"
"""The lifetime of a reservation: after that, nothing is left that could be granted."""

LEAST_KEEP_SECONDS: Final = 3600
MOST_KEEP_SECONDS: Final = 100 * 366 * 86400
"""Bounds of `accounts.keepIdle`: ten half-lives of ten years, which is the longest."""

MAX_QUEUE_LABELS: Final = 10
"""Labels of queues that metrics show; each is a label of one series per queue, which Prometheus
keeps for as long as any of its values stays."""

_NOT_IN_A_NAME: Final = re.compile(r"[^a-zA-Z0-9_]")

NO_ENVIRONMENT: Final[Mapping[str, str]] = {}

FEATURE_GATES_FLAG: Final = "--feature-gates"
CHECK_AVAILABLE_QUOTA: Final = "ElasticQuotaTreeCheckAvailableQuota"
FEATURE_GATES: Final[Mapping[str, bool | None]] = {
    "AllAlpha": False,
    "AllBeta": True,
    "ElasticQuota": True,
    "ElasticQuotaTreeBuildQueueForQuota": True,
    CHECK_AVAILABLE_QUOTA: None,
    "ElasticQuotaTreeDecoupledQueue": True,
    "MaximumExecutionTime": False,
    "QueueUnitActive": None,
    "QueueUnitConditions": None,
    "QueueUnitRequeueState": None,
}
"""Upstream's gates, each with the only value that matches this program. None: either value, since
the gated feature is always there and does not affect those that do not use it, or is switched by
the gate."""

UPSTREAM_FLAGS: Final = (
    *KLOG_FLAGS,
    UpstreamFlag("--scheduleSuspendTimeInMillSecond", "workers rest until something changes"),
    UpstreamFlag(
        "--enableApiHandler", "the debug API is always there: --debug-address", is_switch=True
    ),
    UpstreamFlag(
        "--defaultPreemptible",
        "label jobs quota.scheduling.koordinator.sh/preemptible=false that may not be preempted",
        is_switch=True,
        only=True,
    ),
    UpstreamFlag(
        "--enableParentLimit",
        "a parent's max always counts; its runtime: enableCheckParentQuota of ElasticQuotaV2",
        is_switch=True,
    ),
    UpstreamFlag(
        "--enableVisibilityServer",
        "the debug API answers the same questions: --debug-address",
        is_switch=True,
    ),
    UpstreamFlag(
        FEATURE_GATES_FLAG,
        "what upstream gates is always on here, or not there; only "
        f"{CHECK_AVAILABLE_QUOTA} is heeded",
    ),
    UpstreamFlag(
        "--admissionCheckControllerWorker",
        "one thread looks at what checks have answered; the answers are other programs' work",
    ),
    *(
        UpstreamFlag(name, "the controllers' backoffTimeout says how long a unit is put back")
        for name in ("--podInitialBackoffSeconds", "--podMaxBackoffSeconds")
    ),
    UpstreamFlag(
        "--default-queue-policy", "label ElasticQuotas koord-queue/queue-policy, or edit the Queue"
    ),
)
"""What this program does differently, or not at all."""


class PluginEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of `plugins`."""

    name: str


class AccountsSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """How the use of quotas is counted by user, group and namespace.

    Attributes:
        enabled: Whether it is.
        period: Use is known for the present and for the last period of this kind; not
            `ROLLING_30D`.
        time_zone: The time zone in which days, weeks and months begin, as the IANA database names
            it.
        keep_idle: A duration or seconds: an account without charges is dropped after that.
    """

    enabled: bool = False
    period: Period = Period.MONTH
    time_zone: str = "UTC"
    keep_idle: (
        Annotated[str, Meta(extra_json_schema={"pattern": f"^([0-9]+|{DURATION_PATTERN})$"})]
        | Annotated[int, Meta(extra_json_schema={"minimum": 3600})]
    ) = KEEP_SECONDS

    @property
    def keep_seconds(self) -> int:
        """`keep_idle` in seconds."""
        return int(_read_keep_idle(self.keep_idle))

    @property
    def zone(self) -> tzinfo:
        """The time zone."""
        return read_time_zone(self.time_zone)


class FairTurnsSettings(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """Whether queues of equal rank take turns by what their quotas have used.

    Attributes:
        enabled: Whether they do; otherwise the queue that was served longest ago is next.
        half_life: A duration or seconds: after this time use counts half.
    """

    enabled: bool = False
    half_life: (
        Annotated[str, Meta(extra_json_schema={"pattern": f"^([0-9]+|{DURATION_PATTERN})$"})]
        | Annotated[int, Meta(extra_json_schema={"minimum": LEAST_HALF_LIFE})]
    ) = "168h"

    @property
    def half_life_seconds(self) -> int:
        """`half_life` in seconds."""
        return int(_read_half_life(self.half_life))


class KoordQueueConfiguration(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True
):
    """The configuration file.

    Attributes:
        plugins: Plugins by name, in the order in which they are asked.
        plugin_configs: Arguments by plugin name; each plugin checks its own.
        default_reclaim_protect_time: A Go duration ("5m") or nanoseconds, upstream's type: how long
            after its admission a unit is not evicted for another.
        admission_check_timeout: A duration ("10m") or seconds: how long a reserved unit waits for
            its admission checks if its queue does not say; 0: no limit.
        evictions_per_hour: How many units may be evicted in an hour so that others start, those of
            all queues together; 0: any number.
        boost_per_eviction: By how much each such eviction of a unit raises the priority with which
            it is chosen as a victim again; `MAX_BOOST` in all.
        quota_namespaces: Which namespaces may name a quota; the flag of that name takes precedence.
        accounts: How use is counted; it is not by default.
        fair_turns: Whether turns go by the use of quotas; they do not by default.
    """

    # What the JSON schema says in addition to the type; `load_configuration` reports bad values.
    api_version: Annotated[str, Meta(extra_json_schema={"const": API_VERSION})] = API_VERSION
    kind: Annotated[str, Meta(extra_json_schema={"const": KIND})] = KIND
    plugins: Annotated[tuple[PluginEntry, ...], Meta(extra_json_schema={"uniqueItems": True})] = ()
    plugin_configs: dict[str, dict[str, Any]] = {}
    default_reclaim_protect_time: (
        Annotated[str, Meta(extra_json_schema={"pattern": f"^({DURATION_PATTERN})$"})]
        | Annotated[int, Meta(extra_json_schema={"minimum": 0})]
    ) = 0
    admission_check_timeout: (
        Annotated[str, Meta(extra_json_schema={"pattern": f"^([0-9]+|{DURATION_PATTERN})$"})]
        | Annotated[int, Meta(extra_json_schema={"minimum": 0})]
    ) = "24h"
    evictions_per_hour: Annotated[int, Meta(ge=0, le=MAX_EVICTIONS_PER_HOUR)] = 0
    boost_per_eviction: Annotated[int, Meta(ge=0, le=MAX_BOOST)] = 0
    quota_namespaces: QuotaNamespaces = QuotaNamespaces.OPEN
    accounts: AccountsSettings | UnsetType = UNSET
    fair_turns: FairTurnsSettings | UnsetType = UNSET

    @property
    def kept_accounts(self) -> AccountsSettings | None:
        """How use is counted; None: it is not."""
        settings = self.accounts
        return settings if isinstance(settings, AccountsSettings) and settings.enabled else None

    @property
    def turns_half_life(self) -> int | None:
        """The half-life of use in seconds, by which turns go; None: they do not go by use."""
        settings = self.fair_turns
        if not isinstance(settings, FairTurnsSettings) or not settings.enabled:
            return None
        return settings.half_life_seconds

    def plugin_names(self) -> tuple[str, ...]:
        """Return the plugins to load, in order."""
        return tuple(entry.name for entry in self.plugins) or DEFAULT_PLUGINS

    @property
    def admission_check_seconds(self) -> float:
        """`admission_check_timeout` in seconds."""
        return _read_check_timeout(self.admission_check_timeout)

    @property
    def protect_seconds(self) -> float:
        """Return how many seconds after its admission a unit is not evicted for another."""
        return float(_read_protect_time(self.default_reclaim_protect_time))


def load_configuration(path: str | None) -> KoordQueueConfiguration:
    """Read the file; None: return the defaults.

    Raises:
        ConfigurationError: The file cannot be read, is not YAML, or has unknown content.
    """
    if not path:
        return KoordQueueConfiguration()
    document = read_config_file(path)
    try:
        configuration = msgspec.convert(document, KoordQueueConfiguration)
        _check_kind(configuration)
        _read_protect_time(configuration.default_reclaim_protect_time)
        _read_check_timeout(configuration.admission_check_timeout)
        _check_accounts(configuration.accounts)
        if isinstance(configuration.fair_turns, FairTurnsSettings):
            _read_half_life(configuration.fair_turns.half_life)
    except (msgspec.ValidationError, FlagError) as error:
        raise ConfigurationError(f"--config {path}: {error}") from error
    return configuration


def _check_kind(configuration: KoordQueueConfiguration) -> None:
    got = (configuration.api_version, configuration.kind)
    if got != (API_VERSION, KIND):
        msg = f"apiVersion and kind are {got[0]} {got[1]}, want {API_VERSION} {KIND}"
        raise ConfigurationError(msg)


def _read_protect_time(value: str | int) -> Fraction:
    """Return seconds; a number counts nanoseconds, as in Go's type."""
    try:
        return parse_duration(value if isinstance(value, str) else f"{value}ns")
    except DurationError as error:
        raise FlagError(f"defaultReclaimProtectTime: {error}") from error


def _read_check_timeout(value: str | int) -> float:
    """Return seconds."""
    try:
        return parse_seconds(value)
    except DurationError as error:
        raise FlagError(f"admissionCheckTimeout: {error}") from error


def _check_accounts(settings: AccountsSettings | UnsetType) -> None:
    if isinstance(settings, UnsetType):
        return
    _read_keep_idle(settings.keep_idle)
    if settings.period is Period.ROLLING_30D:
        raise FlagError(f"accounts.period: {settings.period} has no beginning and no end")
    try:
        read_time_zone(settings.time_zone)
    except UnknownTimeZoneError as error:
        raise FlagError(f"accounts.timeZone: {error}") from error


def _read_keep_idle(value: str | int) -> float:
    """Return seconds."""
    try:
        seconds = parse_seconds(value)
    except DurationError as error:
        raise FlagError(f"accounts.keepIdle: {error}") from error
    if not LEAST_KEEP_SECONDS <= seconds <= MOST_KEEP_SECONDS:
        msg = f"accounts.keepIdle: {value} is not between an hour and a hundred years"
        raise FlagError(msg)
    return seconds


def _read_half_life(value: str | int) -> float:
    """Return seconds."""
    try:
        seconds = parse_seconds(value)
    except DurationError as error:
        raise FlagError(f"fairTurns.halfLife: {error}") from error
    if not LEAST_HALF_LIFE <= seconds <= MOST_HALF_LIFE:
        raise FlagError(f"fairTurns.halfLife: {value} is not between a second and ten years")
    return seconds


def parse_rate(text: str) -> Fraction:
    """Return a rate such as "1" or "1.5", exactly.

    Raises:
        FlagError: It is not a number above 0.
    """
    if not _RATE.fullmatch(text):
        raise FlagError(f"--oversellrate {text!r} is not a number")
    rate = Fraction(text)
    if rate <= 0:
        raise FlagError(f"--oversellrate {text} must be above 0")
    return rate


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The parsed command line."""

    program: ProgramFlags
    config: str | None
    queue_namespace: str
    debug: DebugFlags
    oversell_rate: Fraction
    strict: StrictMode
    verdict_seconds: float
    """Strict mode: how long a unit waits for nodes."""
    checks_available_quota: bool
    quota_namespaces: QuotaNamespaces | None
    """None if the flag is not given: the configuration file decides."""
    names_are_proved: bool
    """Whether the API server proves who submits jobs."""
    node_queue_policy: str
    """Policy of queues created for nodes of an ElasticQuotaTree; "": each may have its own."""
    audit_repairs: bool
    """Whether the self-audit places units again whose state differs from the objects."""
    queue_labels: Mapping[str, str]
    """Labels of Queues that metrics show: from the key to the name of the metric's label."""
    without_effect: Mapping[str, str]
    """Flags that were given and have no effect, each with what to use instead."""
    parsed: argparse.Namespace
    """All flags as argparse has read them: those of other packages are only here."""


class FlagGroup(Protocol):
    """Flags that another package adds."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add the flags."""


def parse_flags(
    arguments: Sequence[str],
    environment: Mapping[str, str] = NO_ENVIRONMENT,
    groups: Sequence[FlagGroup] = (),
) -> Flags:
    """Parse the command line.

    Args:
        arguments: Without the program's name.
        environment: Where upstream has one setting (`SMALL_UNITS_VARIABLE`).
        groups: Flags of other packages.

    Raises:
        SystemExit: `--help`, or an unknown flag (argparse's own message).
        FlagError: A value that is invalid, or asks for a feature that is not available.
    """
    got = _parser(groups).parse_args(with_two_dashes(arguments))
    gates: dict[str, bool] = {}
    for text in values_of(got, FEATURE_GATES_FLAG):
        gates.update(_read_feature_gates(text))
    checks_available_quota = gates.get(CHECK_AVAILABLE_QUOTA, False)
    without_effect = read_upstream_flags(got, UPSTREAM_FLAGS)
    if checks_available_quota:
        del without_effect[FEATURE_GATES_FLAG]
    return Flags(
        program=read_program_flags(got, namespace=got.queue_namespace),
        config=got.config,
        queue_namespace=got.queue_namespace,
        debug=read_debug_flags(got),
        oversell_rate=parse_rate(got.oversellrate),
        strict=_read_strict_mode(got, environment),
        verdict_seconds=read_seconds("--verdict-timeout", got.verdict_timeout),
        checks_available_quota=checks_available_quota,
        quota_namespaces=got.quota_namespaces and QuotaNamespaces(got.quota_namespaces),
        names_are_proved=parse_bool("--names-are-proved", got.names_are_proved),
        node_queue_policy=_read_node_queue_policy(environment),
        audit_repairs=parse_bool("--audit-repair", got.audit_repair),
        queue_labels=_read_queue_labels(got.metrics_queue_labels),
        without_effect=without_effect,
        parsed=got,
    )


def _read_queue_labels(text: str) -> dict[str, str]:
    """Return the names under which labels are shown, as kube-state-metrics spells them, by key."""
    keys = [key.strip() for key in text.split(",") if key.strip()]
    shown = {key: f"label_{_NOT_IN_A_NAME.sub('_', key)}" for key in keys}
    if len(shown) > MAX_QUEUE_LABELS:
        msg = (
            f"--metrics-queue-labels lists {len(shown)} keys, at most {MAX_QUEUE_LABELS} are shown"
        )
        raise FlagError(msg)
    if len(set(shown.values())) < len(keys):
        raise FlagError(f"--metrics-queue-labels {text}: two keys are shown under one name")
    return shown


def _read_strict_mode(got: argparse.Namespace, environment: Mapping[str, str]) -> StrictMode:
    queues = [each.strip() for each in got.queue_list.split(",")]
    named = frozenset(each for each in queues if each and not each.startswith("!"))
    excluded = frozenset(each.removeprefix("!").strip() for each in queues if each.startswith("!"))
    small: dict[str, int] = {}
    if got.small_units is not None:
        small = _read_small_units(got.small_units)
    elif environment.get(SMALL_UNITS_VARIABLE) == "true":
        small = dict(SMALL_UNIT)
    return StrictMode(
        is_on=parse_bool("--strictDequeueMode", got.strict_mode),
        included=named,
        excluded=excluded,
        small=small,
    )


def _read_small_units(text: str) -> dict[str, int]:
    """Parse amounts such as "cpu=128,nvidia.com/gpu=8"."""
    amounts: dict[str, int] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        name, sign, quantity = each.partition("=")
        if not (name and sign):
            msg = f"--small-units {each!r}: a resource and its amount are wanted, as in cpu=128"
            raise FlagError(msg)
        try:
            amounts[name] = amount(name, quantity)
        except QuantityError as error:
            raise FlagError(f"--small-units {each!r}: {error}") from error
    return amounts


def read_seconds(flag: str, text: str) -> float:
    """Return the seconds of a duration such as "30s".

    Raises:
        FlagError: It is no duration, or not above 0; the message begins with the flag.
    """
    try:
        seconds = parse_seconds(text)
    except DurationError as error:
        raise FlagError(f"{flag}: {error}") from error
    if seconds <= 0:
        raise FlagError(f"{flag} {text}: more than 0 is needed")
    return seconds


def _read_node_queue_policy(environment: Mapping[str, str]) -> str:
    if environment.get(STRICT_CONSISTENCY) == "true":
        return "Priority"
    return "Block" if environment.get(STRICT_PRIORITY) == "true" else ""


def _read_feature_gates(text: str) -> dict[str, bool]:
    """Return the values of the gates that are set.

    Raises:
        FlagError: A gate that upstream does not have, or a value that this program does not
            support.
    """
    gates: dict[str, bool] = {}
    for gate in filter(None, (each.strip() for each in text.split(","))):
        name, _, value = (each.strip() for each in gate.partition("="))
        if name not in FEATURE_GATES:
            msg = f"{FEATURE_GATES_FLAG}: {name!r} is unknown; known: {', '.join(FEATURE_GATES)}"
            raise FlagError(msg)
        wanted = parse_bool(f"{FEATURE_GATES_FLAG} {name}", value)
        if FEATURE_GATES[name] not in {None, wanted}:
            raise FlagError(f"{FEATURE_GATES_FLAG}: {gate} is not available in this version")
        gates[name] = wanted
    return gates


def _parser(groups: Sequence[FlagGroup]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="koord-queue-scheduler",
        description="Decides which queued job may start: order, quota, turns.",
        allow_abbrev=False,
    )
    add_program_flags(parser, lease_name=LEASE, metrics_address=":10259")
    add = parser.add_argument
    add("--config", help=f"{KIND} file ({API_VERSION})")
    add(
        "--queue-namespace",
        default=DEFAULT_QUEUE_NAMESPACE,
        help="namespace of the Queues (default: %(default)s)",
    )
    add_debug_flags(parser, address="127.0.0.1:19876")
    add(
        "--oversellrate",
        "--oversell-rate",
        default="1",
        help="factor on max, in mode max and for ElasticQuotaTrees (default: %(default)s)",
    )
    add(
        "--quota-namespaces",
        choices=[each.value for each in QuotaNamespaces],
        help="which namespaces may name a quota: any (open), or its own, those that it lists and"
        f" those whose annotation {AVAILABLE_QUOTA_IN_NAMESPACE[0]} lists it (listed);"
        " default: as in the configuration file, or else open",
    )
    add(
        "--names-are-proved",
        nargs="?",
        const="true",
        default="false",
        help=f"count units for whom their annotation {SUBMITTED_BY} names, and trust no label:"
        " admission policies deny false names, as with the chart's admissionPolicy.users"
        " (default: %(default)s)",
    )
    add(
        "--audit-repair",
        nargs="?",
        const="true",
        default="true",
        help="place a unit again whose state differs from the objects in two rounds of the"
        " self-audit; false: only report it (default: %(default)s)",
    )
    add(
        "--metrics-queue-labels",
        default="",
        metavar="KEYS",
        help="keys of labels of Queues that the metric koord_queue_labels shows, such as"
        f" team,example.com/cost-center; at most {MAX_QUEUE_LABELS} (default: none)",
    )
    _add_strict_flags(parser)
    for group in groups:
        group.add_flags(parser)
    add_upstream_flags(parser, UPSTREAM_FLAGS)
    return parser


def _add_strict_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("strict mode").add_argument
    add(
        "--strictDequeueMode",
        "--strict-mode",
        dest="strict_mode",
        nargs="?",
        const="true",
        default="false",
        help="request nodes before a unit starts (the controllers' --enable-reservation)",
    )
    add("--queue-list", default="", help="strict queues; !name: all but that one (default: all)")
    add(
        "--small-units",
        metavar="AMOUNTS",
        help="units that request no more start without nodes, such as cpu=128,nvidia.com/gpu=8;"
        f" {SMALL_UNITS_VARIABLE}=true in the environment sets these (default: none)",
    )
    add(
        "--verdict-timeout",
        default=VERDICT_TIMEOUT,
        help="how long a unit waits for nodes before it is requeued (default: %(default)s)",
    )
