"""The tests, and the commands that stand beside them.

- ``shared_api``, ``queue_scheduler``, ``queue_controllers``: unit tests, one file per module, in
  the tree of the module.
- ``properties``: invariants of the core under generated facts.
- ``simulation``: both programs and a cluster on one thread, in virtual time, from a seed.
- ``contracts``: recorded and published behaviour of others (vectors, observations, recordings) and
  the conformance suite of the fake API server.
- ``charts``: the Helm chart, rendered by real helm.
- ``scenarios``: stories in several acts; ``cluster``: on a real control plane.
- ``controlplane``: finds or builds that control plane; ``demo``, ``benchmarks``: commands.
- ``tidy``: rules of this house that no linter knows.

Ids: ``ctl-41`` or ``[E1]`` is a test of upstream's (``cluster/upstream/README.md``); ``os-008`` and
its like are in ``data/elasticquota-*.json.gz``.

Not here: the fake API server, the virtual clock and the builders; they ship with the package
(``shared_api.testing``).
"""
