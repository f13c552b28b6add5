"""An admission check of your own: jobs start only between certain hours of the day (UTC).

metadata: {name: nights, annotations: {example.com/open-hours: 22-6}}
spec: {controllerName: example.com/opening-hours}
"""

from shared_api.admission_check_kit import authoring as kit

CLOCK: kit.Clock = kit.SystemClock()


def read_hours(check: kit.AdmissionCheck) -> tuple[int, int]:
    """Return from when until when it is open."""
    opens, _, closes = check.metadata.annotations.get("example.com/open-hours", "").partition("-")
    if not {opens, closes} <= {str(hour) for hour in range(25)}:
        wrong = "example.com/open-hours must be two hours from 0 to 24, such as 22-6"
        raise kit.BadParameters("BadHours", wrong)
    return int(opens), int(closes)


def judge(_unit: kit.QueueUnit, hours: tuple[int, int]) -> kit.CheckVerdict:
    """Judge by the clock alone, and again every minute while it is closed."""
    opens, closes = hours
    if (CLOCK.now().hour - opens) % 24 <= (closes - 1 - opens) % 24:
        return kit.CheckVerdict(kit.CheckState.READY, f"open from {opens} to {closes} h")
    return kit.CheckVerdict(kit.CheckState.PENDING, f"opens at {opens} h", recheck_seconds=60.0)


if __name__ == "__main__":  # python examples/opening_hours_check.py --leader-elect=false
    raise SystemExit(kit.serve("example.com/opening-hours", judge, read_hours))
