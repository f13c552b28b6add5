"""Both programs beside the real koord-scheduler 1.8, which judges what they release.

Read in this order: `koord_scheduler` (the process, built from `tests/controlplane/modules`),
`koordinator_world` (the cluster around it), `scenarios` (fixed ones), `quota_shapes` and
`random_rounds` (random ones, from a seed), `round_judge` (which refusals the queue answers for).

        make koordinator                          all scenarios, and some seeds
        make koordinator SEEDS=17, ROUNDS=6       one seed, six rounds
        make koordinator ROUNDS=0                 the scenarios alone
        make koordinator SCENARIOS= SEEDS=20      the rounds alone
        make koordinator PARKING=1                all of it where held pods are parked

Not part of `make test`: koord-scheduler takes minutes to build, and the rounds a minute each.
"""
