"""Strict mode: nodes are asked for before a job is released (`--enable-reservation`).

    unit SchedReady -> a Reservation per pod -> koord-scheduler's verdicts -> SchedSucceed: released
                                                                          -> SchedFailed: put back

Read in this order:

1. ``reservation_builder``: job and unit -> Reservations; with ``node_blacklist``, the nodes that
   none may be on.
2. ``decide``: unit, Reservations, what koord-scheduler has said of them, the time -> what to do;
   pure.
3. ``execute``: one method per action; ``reservation_controller``: what to reconcile, and when;
   ``reservation_settings``: the settings.

Not here: which queues are strict, and what becomes of a unit whose nodes were refused
(``queue_scheduler``); how a job is released (``decision.release``).

Tested by ``tests/queue_controllers/reservations``.
"""
