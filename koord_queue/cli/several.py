"""Options that take several values in a row: `--compare FIFO Priority`, as well as repeated."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from typing import Any

import click


class SeveralValues(click.Command):
    """A command whose options with `multiple=True` may be followed by several values."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a line, with the name of such an option before each of its values."""
        options = [each for each in self.params if isinstance(each, click.Option)]
        names = {name for each in options if each.multiple for name in each.opts}
        return super().parse_args(ctx, list(repeat_names(args, names)))


def repeat_names(args: list[str], names: Collection[str]) -> Iterator[str]:
    """Yield a line in which each value of the options of these names follows a name."""
    name, has_value = "", False
    for place, arg in enumerate(args):
        if arg == "--":
            yield from args[place:]
            return
        if arg in names:
            name, has_value = arg, False
        elif arg.startswith("-"):
            name = ""
        elif name:
            if has_value:
                yield name
            has_value = True
        yield arg


class NumberRange(click.FloatRange):
    """A range of numbers, in which `nan` is none."""

    def convert(
        self,
        value: Any,  # noqa: ANN401 - as click has it
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> float:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("nan is no number.", param, ctx)
        return number
