"""`koord-queue version`: of the command line, and of the programs in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
import msgspec

from koord_queue.checks.facts import COMPONENT, PART_OF, containers_of, label_of, text_of
from koord_queue.checks.programs import version_of
from koord_queue.cli import options
from koord_queue.errors import CommandError
from koord_queue.show.documents import show_document
from shared_api.version import VERSION

if TYPE_CHECKING:
    from koord_queue.session.session import Session

COLUMNS: Final = ("PROGRAM", "VERSION", "IMAGE")
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/{namespace}/deployments"


@click.command()
@click.option("--client", is_flag=True, help="Only of this command line; nothing is asked.")
@options.output("table", "json", "yaml")
@options.reach
def version(session: Session, *, client: bool, form: str) -> None:
    """Show the version of this command line, and of the programs in the cluster."""
    programs: list[dict[str, Any]] = []
    server = ""
    if not client:
        try:
            server = _server_version(session)
            programs = _programs(session)
        except CommandError as error:
            session.out.note(f"the versions in the cluster are not known: {error.message}")
    if form != "table":
        known = {"client": {"version": VERSION}, "server": server, "programs": programs}
        show_document(session.out, known, form)
        return
    rows = [["command-line", VERSION, "-"]]
    if server:
        rows.append(["kubernetes", server, "-"])
    rows += [[each["name"], each["version"] or "-", each["image"] or "-"] for each in programs]
    session.out.table(COLUMNS, rows)


def _server_version(session: Session) -> str:
    return text_of(msgspec.json.decode(session.cluster().get("/version")), "gitVersion")


def _programs(session: Session) -> list[dict[str, Any]]:
    namespace = session.choice.system_namespace
    query = (("labelSelector", f"app.kubernetes.io/part-of={PART_OF}"),)
    answer = session.cluster().get(DEPLOYMENTS.format(namespace=namespace), query)
    found = msgspec.json.decode(answer).get("items") or []
    if not found:
        session.out.note(f"no program is installed in namespace {namespace} (--system-namespace)")
    return [
        {
            "name": text_of(each, "metadata", "name"),
            "component": label_of(each, COMPONENT),
            "version": version_of(each),
            "image": text_of(next(iter(containers_of(each)), None), "image"),
        }
        for each in found
    ]
