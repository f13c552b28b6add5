"""Who is charged for what: the accounts of users and groups, and what limits them. Pure.

Read in this order:

1. ``accounts``: what identifies an account, and which account each charged uid belongs to.
2. ``limit_rules``: what limits users and groups in a quota, and which rule concerns whom;
   ``limit_reading``: the rules that a QuotaPolicy states.
3. ``quota_policies``: which QuotaPolicy counts for which quota, and what of it is in force.
4. ``user_limits``: what each user and group has (``limit_use``), by which rules that is refused
   (``rules_in_chains``), who waits for it (``limit_waiters``), and who may be pending
   (``pending_seats``).
5. ``ledger``: what each account has used; ``shards``: parts of it as texts, to be kept outside.
6. ``budget_rules``: how much a quota may use in a period; ``budget_reading``: the budgets that a
   QuotaPolicy states; ``calendars``: when periods begin, as the engine is told it.
7. ``budget_accounts``: what each budget has spent (``budget_account``), and what running units may
   still use (``commitments``), by ``budgets_in_chains``; ``budget_figures``: it for people.
8. ``budgets``: which units are refused for that, and who waits for it (``budget_waiters``, which
   has in common with ``limit_waiters`` what is in ``due_classes``).
9. ``fair_use``: what accounts have used in queues with the policy Fair, as use that decays
   (``scaled_use``).
10. ``quota_use``: what quotas have used above their ``min``, by which queues take turns.
11. ``periods``: when days, weeks and months begin in a time zone; asked outside the engine.

Not here: who submitted a unit (``shared_api.submitters``); what is charged for a unit and when
(``queue_scheduler.cache.usage``); quota arithmetic (``queue_scheduler.quota_cache``).

Tested by ``tests/queue_scheduler/tenants``; ``test_limit_changes.py`` and
``test_budget_changes.py`` in ``tests/queue_scheduler/engine``; ``test_user_limits.py`` and
``test_budgets.py`` in ``tests/properties``.
"""
