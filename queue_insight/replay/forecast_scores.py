"""How good forecasts were, beside controls that answered the same questions.

Times beyond seven days count as seven days. A horizon is where the p50 that was told lies, never
the true wait: whoever reads a forecast knows no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import mean, median
from typing import Any, Final

from queue_insight.forecast.quantiles import HIGH, HORIZON_NAMES, LOW, MIDDLE, Wait, horizon_of
from queue_insight.replay.scored_replay import WEEK, Question

Json = dict[str, Any]

QUICK_SECONDS: Final = 60.0
"""Jobs that wait for less in all are counted apart: an error of theirs says nothing."""

CONTROLS: Final = ("last200", "declared", "position")
ALL: Final = "all"


def score(questions: Iterable[Question]) -> Json:
    """Return the scores of forecasts and controls, by horizon and for all.

    Returns:
        `horizons`: by their names and `all`, each with `n`, `moments` (how many they were asked at:
        those of one moment err alike), the scores of `forecast`, and those of each control with the
        `skill` of the forecast against it; `underAMinute`: how many waited for less than a minute,
        and of these how many were told so.
    """
    scored = [each for each in questions if each.is_scored and each.true is not None]
    slow = [each for each in scored if each.total >= QUICK_SECONDS]
    quick = [each for each in scored if each.total < QUICK_SECONDS]
    horizons = {}
    for index, name in enumerate(HORIZON_NAMES):
        horizons[name] = _score_some([q for q in slow if horizon_of(q.calibrated.p50) == index])
    horizons[ALL] = _score_some(slow)
    small_count = sum(each.calibrated.p50 < QUICK_SECONDS for each in quick)
    return {"horizons": horizons, "underAMinute": {"n": len(quick), "toldSo": small_count}}


def _score_some(questions: Sequence[Question]) -> Json:
    scores: Json = {"n": len(questions), "moments": len({each.now for each in questions})}
    if not questions:
        return scores
    scores["forecast"] = _scores(questions, lambda each: each.calibrated)
    scores["uncalibrated"] = _scores(questions, lambda each: each.raw)
    for name in CONTROLS:
        answered = [each for each in questions if each.controls.get(name) is not None]
        if answered:
            scores[name] = _against(answered, name)
    return scores


def _against(questions: Sequence[Question], name: str) -> Json:
    def of_control(question: Question) -> Wait:
        wait = question.controls[name]
        assert wait is not None, "only those that it answered"
        return wait

    scores = _scores(questions, of_control)
    ours = _scores(questions, lambda each: each.calibrated)["pinball"]
    skill = 1 - ours / scores["pinball"] if scores["pinball"] else 0.0
    return {**scores, "n": len(questions), "skill": round(skill, 3)}


def _scores(questions: Sequence[Question], read: Callable[[Question], Wait]) -> Json:
    true = [min(each.true or 0.0, WEEK) for each in questions]
    forecasts = [_within_week(read(each)) for each in questions]
    pairs = list(zip(true, forecasts, strict=True))
    mean_wait = mean(true)
    errors = [abs(wait.p50 - is_so) for is_so, wait in pairs]
    return {
        "medianRelativeError": round(
            median(error / max(is_so, 1.0) for error, is_so in zip(errors, true, strict=True)), 3
        ),
        "coverageP90": round(mean(is_so <= wait.p90 for is_so, wait in pairs), 3),
        "coverageBand": round(mean(wait.p10 <= is_so <= wait.p90 for is_so, wait in pairs), 3),
        "pinball": round(mean(_pinball(is_so, wait) for is_so, wait in pairs), 1),
        "errorPerMeanWait": round(mean(errors) / mean_wait, 3) if mean_wait else 0.0,
        "meanWait": round(mean_wait, 1),
    }


def _within_week(wait: Wait) -> Wait:
    return Wait(min(wait.p10, WEEK), min(wait.p50, WEEK), min(wait.p90, WEEK))


def _pinball(true: float, wait: Wait) -> float:
    """Return the mean loss of the three quantiles; the smallest when they are right."""
    losses = (
        (level * (true - forecast) if true >= forecast else (1 - level) * (forecast - true))
        for level, forecast in ((LOW, wait.p10), (MIDDLE, wait.p50), (HIGH, wait.p90))
    )
    return sum(losses) / 3


_HEAD: Final = (
    f"{'horizon':<8}{'n':>6}{'moments':>9}{'rel.err':>9}{'p90':>7}{'p10-90':>8}{'MAE/wait':>10}"
    f"{'skill: last200':>16}{'declared':>10}{'position':>10}"
)


def score_lines(scores: Json) -> Iterator[str]:
    """Yield the scores of one world as lines of a table."""
    yield _HEAD
    for name in (*HORIZON_NAMES, ALL):
        row = scores["horizons"][name]
        if not row["n"]:
            yield f"{name:<8}{0:>6}"
            continue
        ours = row["forecast"]
        skills = [f"{row[control]['skill']:.2f}" if control in row else "-" for control in CONTROLS]
        yield (
            f"{name:<8}{row['n']:>6}{row['moments']:>9}{ours['medianRelativeError']:>9.2f}"
            f"{ours['coverageP90']:>7.0%}{ours['coverageBand']:>8.0%}{ours['errorPerMeanWait']:>10.2f}"
            f"{skills[0]:>16}{skills[1]:>10}{skills[2]:>10}"
        )
    quick = scores["underAMinute"]
    text = f"waited less than a minute in all; {quick['toldSo']} were told so"
    yield f"{'<1min':<8}{quick['n']:>6}  {text}"
