"""Completion of words in shells, and `koord-queue completion`, which prints its scripts.

Names of units, jobs, queues, quotas and namespaces come from the cluster. A cluster that does not
answer in time, or refuses, completes nothing: whoever presses the tab key has not asked yet.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from types import FrameType
from typing import Any, Final

import click
import msgspec
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    _resolve_context,
    _resolve_incomplete,
    add_completion_class,
    get_completion_class,
)

from koord_queue.reach.choice import Choice

SECONDS: Final = 2.0
"""How long the tab key may take."""
PAGE: Final = "500"
"""Names that are asked for at most: more are of no help."""
KUBECTL_SCRIPT: Final = "kubectl_complete-koord_queue"
_NAMED: Final = ("queue", "quota", "namespace")
"""What options name by the words that are their own names."""


HELP: Final = """Print the completion of a shell, or the file that kubectl runs for it.

\b
bash:     source <(koord-queue completion bash)
zsh:      source <(koord-queue completion zsh)
fish:     koord-queue completion fish | source
kubectl:  pip installs kubectl_complete-koord_queue, which has only to be on the PATH
"""


@click.command(help=HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish", "kubectl"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion of a shell."""
    if shell == "kubectl":
        click.echo(_kubectl_script(), nl=False)
        return
    kind = get_completion_class(shell)
    assert kind is not None  # one of the three above
    root = context.find_root()
    click.echo(kind(root.command, {}, "koord-queue", root.obj).source())


def _kubectl_script() -> str:
    """Return the program that kubectl's completion runs, for where pip has put none on the PATH."""
    return (
        "#!/bin/sh\n"
        "# kubectl runs this to complete the words of `kubectl koord-queue`: an executable\n"
        f"# file of the name {KUBECTL_SCRIPT} on the PATH.\n"
        f'exec "{sys.executable}" -c '
        "'from koord_queue.cli.completion import complete_for_kubectl as c; c()' \"$@\"\n"
    )


def register() -> None:
    """Let click complete names from the cluster in the three shells."""
    for kind in (_Bash, _Zsh, _Fish):
        add_completion_class(kind)


class NamesComplete(ShellComplete):
    """Click's completion, and names from the cluster."""

    name = "kubectl"
    source_template = ""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Return what may come next."""
        # Click keeps these two for its own classes; they are the only way to the parameter.
        context = _resolve_context(self.cli, self.ctx_args, self.prog_name, args)
        parameter, typed = _resolve_incomplete(context, args, incomplete)
        if isinstance(parameter, click.Parameter):
            kinds = kinds_of(parameter)
            if kinds:
                return [CompletionItem(each) for each in names_of(kinds, context, typed)]
        return super().get_completions(args, incomplete)


class _Bash(NamesComplete, BashComplete):
    name = "bash"
    source_template = BashComplete.source_template


class _Zsh(NamesComplete, ZshComplete):
    name = "zsh"
    source_template = ZshComplete.source_template


class _Fish(NamesComplete, FishComplete):
    name = "fish"
    source_template = FishComplete.source_template


def kinds_of(parameter: click.Parameter) -> tuple[str, ...]:
    """Return what a parameter names: `unit`, `queue`, `quota`, `namespace`; () for others."""
    name, shown = parameter.name or "", (parameter.metavar or "").upper()
    if isinstance(parameter, click.Option):
        is_name = shown in {"NAME", "QUEUE", "QUOTA"}
        return (name,) if is_name and name in _NAMED else ()
    words = shown or name.upper()
    found = []
    if "UNIT" in words or "JOB" in words:
        found.append("unit")
    if "QUEUE" in words:
        # Beside units a queue has its word before it.
        found.append("queue/" if found else "queue")
    if "QUOTA" in words:
        found.append("quota")
    return tuple(found)


def names_of(kinds: Sequence[str], context: click.Context, typed: str) -> list[str]:
    """Return the names in the cluster that begin with what is typed; none if it does not answer."""
    try:
        with _time_limit(SECONDS):
            found = [name for kind in kinds for name in _names(kind, context, typed)]
    except Exception:  # noqa: BLE001 - a cluster that fails completes nothing
        return []
    return sorted({name for name in found if name.startswith(typed)})


def _names(kind: str, context: click.Context, typed: str) -> Iterator[str]:
    from koord_queue.reach import resources  # noqa: PLC0415 - only where names are asked for
    from koord_queue.reach.cluster import open_cluster  # noqa: PLC0415 - the same
    from koord_queue.reach.named import read_owned  # noqa: PLC0415 - the same
    from shared_api.process.clock import SystemClock  # noqa: PLC0415 - the same

    given = {name: context.params.get(name) for name in Choice._fields}
    choice = Choice(**{name: value for name, value in given.items() if value is not None})
    limit = (("limit", PAGE),)
    with closing(open_cluster(choice, SystemClock())) as cluster:
        if kind == "unit":
            path = resources.QUEUE_UNITS.path(choice.namespace or cluster.namespace)
            for owned in read_owned(cluster.get(path, limit)):
                if owned.job:
                    yield f"{owned.kind.lower()}/{owned.job}"
                # A unit's own name is offered to whoever has begun to type it.
                if typed or not owned.job:
                    yield owned.unit
            return
        before, slash, _ = kind.partition("/")
        paths = {
            "queue": resources.QUEUES.path(choice.system_namespace),
            "quota": resources.ELASTIC_QUOTAS.path(""),
            "namespace": resources.NAMESPACES.path(""),
        }
        answer: Any = msgspec.json.decode(cluster.get(paths[before], limit))
        for each in answer["items"]:
            yield f"{before}/{each['metadata']['name']}" if slash else each["metadata"]["name"]


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
