"""An engine of the record beside the one that decides: told the same calls, it decides the same."""

from __future__ import annotations

from queue_insight.record.call_codec import decode_call, encode_call
from queue_insight.record.checkpoint import freeze, thaw
from queue_insight.record.digest import digest
from queue_scheduler.cycles.call_log import CallLog
from queue_scheduler.cycles.engine_call import play
from queue_scheduler.cycles.shared_engine import SharedEngine
from queue_scheduler.decision import Dequeue, Preempt
from tests.simulation.budget_judge import BudgetMeter
from tests.simulation.share_judge import ShareJudge


class ReplayedEngine:
    """Starts from a checkpoint of a scheduler that has just been built."""

    def __init__(self, shared: SharedEngine, log: CallLog) -> None:
        self._shared = shared
        self._log = log
        self._number, engine = shared.checkpoint(starts_log=True)
        self._engine = thaw(freeze(engine))
        self._decided: list[Dequeue | Preempt] = []
        self._meter = BudgetMeter()
        self._shares = ShareJudge(self._engine)

    def on_decision(self, decision: Dequeue | Preempt) -> None:
        """Note what the scheduler has decided."""
        self._decided.append(decision)

    def check(self) -> None:
        """Play what the scheduler's engine was called with; raise AssertionError if it differs."""
        decided: list[Dequeue | Preempt] = []
        for call in self._log.take():
            assert call.number == self._number + 1, f"call {call.number} after {self._number}"
            self._number = call.number
            self._meter.before(self._engine)
            self._shares.before(call)
            answer = play(self._engine, decode_call(encode_call(call)))
            self._meter.after(self._engine)
            self._shares.after(call, answer)
            assert not isinstance(answer, Exception), f"{call.name} raised {answer!r}"
            if isinstance(answer, Dequeue | Preempt):
                decided.append(answer)
        self._shares.check()
        want, self._decided = self._decided, []
        assert decided == want, f"the record decides {decided}, and the scheduler {want}"
        made, taken = self._log.last, self._number
        assert made == taken, f"{made} calls were made, and {taken} recorded"
        assert digest(self._engine) == self._shared.ask(digest), f"it differs after call {taken}"

    def check_stop(self, key: str) -> None:
        """Raise AssertionError if a unit is stopped that may run on."""
        self.check()
        self._meter.check_stop(self._engine, key)

    def check_stopped(self, wall: int) -> None:
        """Raise AssertionError if a unit runs on whose budget was spent long ago."""
        self.check()  # what was written last may be the eviction
        self._meter.check_stopped(self._engine, wall)
