"""Flags of upstream that are accepted without effect."""

from __future__ import annotations

import argparse

import pytest

from shared_api.program_flags import FlagError, with_two_dashes
from shared_api.upstream_flags import (
    KLOG_FLAGS,
    UpstreamFlag,
    add_upstream_flags,
    read_upstream_flags,
    values_of,
)

FLAGS = (
    UpstreamFlag("--some-number", "ask the moon"),
    UpstreamFlag("--switch", "it is on", is_switch=True),
    UpstreamFlag("--neverMode", "there is none", is_switch=True, only=False),
)


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_upstream_flags(parser, FLAGS)
    return parser


def read(*arguments: str) -> dict[str, str]:
    return read_upstream_flags(parser().parse_args(with_two_dashes(arguments)), FLAGS)


def test_no_flag_is_given() -> None:
    assert read() == {}


def test_each_given_flag_is_reported_once_with_its_replacement() -> None:
    got = read("-some-number", "-1", "--neverMode=false", "--some-number=2")
    assert got == {"--some-number": "ask the moon", "--neverMode": "there is none"}


def test_all_values_of_a_repeated_flag() -> None:
    got = parser().parse_args(["--some-number=1", "--some-number", "2", "--switch"])
    assert values_of(got, "--some-number") == ["1", "2"]
    assert values_of(got, "--switch") == ["true"]
    assert values_of(got, "--neverMode") == []


@pytest.mark.parametrize("argument", ["--neverMode", "-neverMode=T"])
def test_an_unsupported_value_is_one_line(argument: str) -> None:
    with pytest.raises(FlagError, match=r"--neverMode=.* is not available .*: there is none$"):
        read(argument)


def test_a_switch_is_true_or_false() -> None:
    with pytest.raises(FlagError, match="--switch 'maybe'"):
        read("--switch=maybe")


def test_help_has_the_replacement() -> None:
    text = " ".join(parser().format_help().split())
    assert "taken and have no effect" in text
    assert "ask the moon" in text
    assert "there is none; only false" in text


def test_names_have_two_dashes_and_are_unique() -> None:
    names = [flag.name for flag in KLOG_FLAGS]
    assert all(name.startswith("--") for name in names)
    assert len(set(names)) == len(names)
