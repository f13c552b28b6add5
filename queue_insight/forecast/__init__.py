"""When units start: forecasts by the engine that decides, run forward in virtual time. Pure.

Read in this order:

1. ``all_units``: one set of paths answers for all waiting units at once.
2. ``paths``: plays one path; ``draws``: what is random on it.
3. ``run_times``: how long runs last, learned from ``traits`` of those that ended; ``survival``: the
   estimate behind it; ``model_loading``: the one of an installed package. ``arrivals``: what is
   still to come; ``run_ends``: when running units end.
4. ``no_forecast``: which units have no forecast, and why.
5. ``renewals``: one forecast after the other. ``calibration``: corrects them by those that have
   come true; ``quantiles``.

Not here: how good it is (``queue_insight.replay.forecast_scores``); renewals and routes
(``queue_insight.debug_api.forecast_routes``).

Tested by ``tests/queue_insight/forecast``.
"""
