"""Settings from make and the command line."""

from __future__ import annotations

import pytest

from tests.demo.demo_settings import ALL_JOBS, Where, read_settings


@pytest.mark.parametrize(
    ("arguments", "environment", "want"),
    [
        pytest.param([], {}, (Where.EMBEDDED, False), id="plain make demo"),
        pytest.param([], {"CLUSTER": "", "DEMO": ""}, (Where.EMBEDDED, False), id="make's empty"),
        pytest.param([], {"CLUSTER": "local"}, (Where.LOCAL, False), id="CLUSTER=local"),
        pytest.param([], {"CLUSTER": "current"}, (Where.CURRENT, False), id="CLUSTER=current"),
        pytest.param(
            [], {"CLUSTER": "local", "KUBERNETES": "1.34.4"}, (Where.LOCAL, False), id="a version"
        ),
        pytest.param([], {"DEMO": "once"}, (Where.EMBEDDED, True), id="DEMO=once"),
        pytest.param(["--once"], {}, (Where.EMBEDDED, True), id="--once"),
        pytest.param(
            ["--cluster", "embedded"], {"CLUSTER": "local"}, (Where.EMBEDDED, False), id="both"
        ),
    ],
)
def test_cluster_and_mode(
    arguments: list[str], environment: dict[str, str], want: tuple[Where, bool]
) -> None:
    got = read_settings(arguments, environment)
    assert (got.where, got.once) == want
    assert got.jobs == ALL_JOBS


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        pytest.param([], {"CLUSTER": "kind"}, "CLUSTER=kind", id="cluster"),
        pytest.param([], {"DEMO": "twice"}, "DEMO=twice", id="mode"),
        pytest.param([], {"KUBERNETES": "1.34.4"}, "needs CLUSTER=local", id="nowhere to run"),
        pytest.param(
            [], {"CLUSTER": "local", "KUBERNETES": "1.2.3"}, "known are 1.34.4", id="version"
        ),
        pytest.param(["--jobs", "0"], {}, "above 0", id="jobs"),
    ],
)
def test_an_invalid_setting_is_reported_in_one_line(
    arguments: list[str],
    environment: dict[str, str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        read_settings(arguments, environment)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err
