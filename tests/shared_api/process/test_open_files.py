"""How the file descriptors of a process are divided."""

from __future__ import annotations

import resource

import pytest

from shared_api.process.open_files import (
    MIN_SHARE,
    RESERVED,
    WANTED,
    OpenFilesError,
    divide_open_files,
    raise_open_files,
)


@pytest.mark.parametrize("limit", [RESERVED + sum(WANTED.values()), 4096, 1_048_576])
def test_with_enough_files_each_port_gets_what_it_wants(limit: int) -> None:
    assert divide_open_files(limit) == dict(WANTED)


@pytest.mark.parametrize("limit", range(RESERVED + 96, RESERVED + 768, 21))
def test_with_fewer_files_the_work_keeps_its_own_and_the_ports_share_the_rest(limit: int) -> None:
    shares = divide_open_files(limit)
    assert shares.keys() == WANTED.keys()
    assert min(shares.values()) >= MIN_SHARE
    assert sum(shares.values()) <= limit - RESERVED


def test_with_too_few_files_the_error_has_the_number_needed() -> None:
    with pytest.raises(OpenFilesError, match=r"may open 200 files, at least 352 .*ulimit -n"):
        divide_open_files(200)
    with pytest.raises(OpenFilesError):
        divide_open_files(351)
    assert min(divide_open_files(352).values()) == MIN_SHARE


@pytest.mark.parametrize(
    ("limits", "want", "set_to"),
    [
        pytest.param((1024, 4096), 1024, None, id="enough"),
        pytest.param((256, 4096), 1024, 1024, id="the soft limit is raised"),
        pytest.param((256, 300), 300, 300, id="up to the hard limit"),
        pytest.param((256, resource.RLIM_INFINITY), 1024, 1024, id="no hard limit"),
        pytest.param((resource.RLIM_INFINITY,) * 2, 1024, None, id="no limit"),
    ],
)
def test_the_limit_is_raised_to_what_is_needed(
    limits: tuple[int, int], want: int, set_to: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    was_set: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, to: was_set.append(to))
    assert raise_open_files() == want
    assert was_set == ([] if set_to is None else [(set_to, limits[1])])
