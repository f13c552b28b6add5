"""Both programs and a cluster on one thread in virtual time, from a seed, with faults.

Read in this order: `simulated_run` (what a run is), `world_plan` (what a seed makes of it), `world`
(which thread runs next), `stepped_programs` (the programs), `cluster_side` and `reservation_side`
(the rest of the cluster), `action_table` (what may happen, and how to add to it) and the
`*_actions`, then the judges: `account_judge` (every write), `decision_judge` (every decision),
`limit_judge` (limits of users, in some worlds), `budget_judge` (budgets, in others), `share_judge`
(turns by use, and accounts) with `share_meters`, and `rest_checks` (quiet times). `planted_faults`
breaks the programs on purpose, and `planted_faults.md` says how soon that is found.

        make sim SEEDS=2000             many runs
        make sim SEEDS=17, TRACE=1      one run, with everything that happened in it
        make sim-faults                 the planted faults, and their table
"""
