"""Options with several values in a row are read as if each value had the name before it."""

from __future__ import annotations

import pytest

from koord_queue.cli.app import run
from koord_queue.cli.several import repeat_names


@pytest.mark.parametrize(
    ("line", "want"),
    [
        pytest.param("--to a b", "--to a --to b", id="two values"),
        pytest.param("--to a --as b c", "--to a --as b c", id="the next option ends the row"),
        pytest.param("--to a -- b c", "--to a -- b c", id="two dashes end all options"),
        pytest.param("--to=a b", "--to=a b", id="a value after an equals sign is the only one"),
        pytest.param("--to a --to b", "--to a --to b", id="the name is repeated already"),
        pytest.param("x --to a", "x --to a", id="an argument before"),
    ],
)
def test_a_row_of_values(line: str, want: str) -> None:
    assert " ".join(repeat_names(line.split(), {"--to"})) == want


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("--start-seconds=-1", "Invalid value for '--start-seconds'"),
        ("--stop-seconds=nan", "nan is no number"),
        ("--loads 0.5 0", "Invalid value for '--loads'"),
        ("--declared near soon", "Invalid value for '--declared'"),
        ("--paths 0", "Invalid value for '--paths'"),
    ],
)
def test_a_number_out_of_range_is_a_mistake_of_the_line(
    line: str, want: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["replay", "t.csv", *line.split()]) == 2
    assert want in capsys.readouterr().err
