"""What a controller of admission checks needs: a rule goes in, states of checks come out.

Read in this order:

1. ``verdicts``: what can be said about a unit, and what that makes of `status.admissionChecks`.
2. ``judging``: the rule, as a protocol; what else a controller may say or want to know.
   ``rules``: a judge made of functions.
3. ``unit_checks``: looks at one unit and writes what the judge says; ``check_activity``: the same
   for the AdmissionChecks themselves; ``check_notices``: what events and metrics say of both.
4. ``check_controller``: puts them together for one process.
5. ``serving``: `serve(name, judge)`, a whole program in one call; ``authoring``: all names that
   a check of one's own needs, in one import.

Not here: any rule. The built-in one, for nodes, is ``queue_scheduler.admission_check_controller``;
``examples/opening_hours_check.py`` is another. Which checks a unit needs, and what follows from
their states, is the scheduler's.
"""
