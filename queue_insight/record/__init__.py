"""What an engine was told and asked, kept so that its state at any time can be had again.

Read in this order:

1. ``call_codec``: a call of the engine as bytes; ``checkpoint``: an engine as bytes, and back, by
   ``unpickler``, which trusts nothing but what ``allowed_names`` has; ``checkpoint_error``.
2. ``digest``: whether two engines are in the same state.
3. ``decision_log``: decisions as entries of a log.
4. ``record_store``: all of it in a SQLite file; ``record_writer``: the thread that writes.
5. ``samples``: what queues and quotas had, a row a minute; ``engine_samples`` takes them from an
   engine, ``sample_tables`` keeps and folds them.
6. ``use_meter``: what accounts use, summed up as charges change; ``use_sums``: these sums as
   values; ``quota_balance``: what quotas borrow and lend; ``use_tables`` keeps hours and days.
7. ``log_query``: the log in pages; ``time_travel``: the engine as it was at a time.

The calls themselves are ``queue_scheduler.cycles.engine_call`` and ``call_log``.
Not here: who takes the calls, and sends them to another process.

Tested by ``tests/queue_insight/record``, and by ``test_replayed_calls.py``, ``test_dumps.py`` and
``test_use_meter.py`` in ``tests/properties``.
"""
