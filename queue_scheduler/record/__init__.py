"""What an engine was told and asked, kept so that its state at any time can be had again.

Read in this order:

1. ``engine_call``: one call of an engine as a value, and playing it again.
2. ``call_log``: the calls of the engine that decides, until they are taken.
3. ``call_codec``: a call as bytes; ``checkpoint``: an engine as bytes, and back, by ``unpickler``,
   which trusts nothing but what ``allowed_names`` has; ``checkpoint_error``.
4. ``digest``: whether two engines are in the same state.
5. ``decision_log``: decisions as entries of a log.
6. ``record_store``: all of it in a SQLite file; ``record_writer``: the thread that writes.
7. ``log_query``: the log in pages; ``time_travel``: the engine as it was at a time.

Not here: who takes the calls, and sends them to another process.
"""
