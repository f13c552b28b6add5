"""The threads around the engine: they feed it, ask it, and carry out its decisions.

Read in this order:

1. ``shared_engine``: the engine behind its one lock, and the wake-up of the workers.
   ``engine_reader``: asking it, or an engine that one thread has for itself.
2. ``event_handlers``: what informers report, as facts for the engine.
   ``passing_time``: the time, where nothing else tells it. ``limit_slices``: what is left to do of
   a change of limits. ``budget_calendars``: when the periods of budgets begin.
   ``reservation_schedules``: when units must not run.
3. ``queue_worker``: one thread per queue: ask for the next decision, hand it over.
4. ``dequeue_cycle``: one status patch per admission; then it is confirmed, or taken back.
5. ``preemption_cycle``: the evictions of one round.
6. ``engine_call``: one call of the engine as a value, and playing it again.
   ``call_log``: the calls of the engine, until the feed or a recorder takes them.

Not here: what the patches say (``queue_scheduler.unit_writes``), and what follows from one unit's
object and the time (``queue_scheduler.unit_controllers``).

Tested by ``tests/queue_scheduler/cycles``, ``tests/properties/test_shells_agree.py`` and
``tests/properties/test_shells_and_deadlines.py``.
"""
