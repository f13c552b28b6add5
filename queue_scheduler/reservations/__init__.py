"""When units must not run: windows that QueueReservations state, and what they refuse.

Read in this order:

1. ``schedules``: when windows are, as the engine is told it. Pure.
2. ``recurrence``: the days of a recurrence rule; ``expansion``: the windows of a schedule, from the
   time and the time zone database. Asked outside the engine.
3. ``queue_reservations``: the QueueReservations, and what of each is in force;
   ``reservation_rules``: what their specs mean. Pure, as all that follows.
4. ``windows``: which units are refused, and when they may start.

Not here: the Reservations of Koordinator, which controllers make for strict queues
(``queue_controllers.reservations``).

Tested by ``tests/queue_scheduler/reservations``, and with the engine by
``tests/queue_scheduler/engine/test_window_changes.py``.
"""
