"""Commands whose options `queue_scheduler.command_line` still reads."""

from __future__ import annotations

import click


def _passed_on(name: str) -> click.Command:
    @click.command(
        name,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    @click.pass_context
    def command(context: click.Context, arguments: tuple[str, ...]) -> None:
        from queue_scheduler.command_line.__main__ import run  # noqa: PLC0415 - the engine

        try:
            code = run([name, *arguments])
        except SystemExit as error:
            code = int(error.code or 0)
        context.exit(code)

    return command


replay = _passed_on("replay")
dump = _passed_on("dump")
explain = _passed_on("explain")
forecast = _passed_on("forecast")
try_ = _passed_on("try")
what_if = _passed_on("what-if")
