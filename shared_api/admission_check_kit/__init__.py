"""A kit for controllers of admission checks: the author adds a rule, the kit writes the states.

Read in this order:

1. ``verdicts``: the possible verdicts on a unit, and the `status.admissionChecks` that follow.
2. ``judging``: the protocol of a rule, and optional protocols for further tasks.
   ``rules``: a judge made of functions.
3. ``unit_checks``: reconciles one unit with the judge's verdicts; ``check_activity``: the same
   for the AdmissionChecks themselves; ``check_notices``: events and metrics of both.
4. ``check_controller``: assembles them for one process.
5. ``serving``: `serve(name, judge)`, a whole program in one call; ``authoring``: all names that
   authors of checks need, in one import.

Not here: any rule. The built-in one, for nodes, is ``queue_admission_checks``;
``examples/opening_hours_check.py`` is another. The scheduler decides which checks a unit needs, and
what follows from their states.

Tested by ``tests/shared_api/admission_check_kit``.
"""
