"""The tests, and the commands next to them.

- ``shared_api``, ``queue_scheduler``, ``queue_controllers``: unit tests, one file per module, in
  the tree of the module.
- ``properties``: invariants of the core under generated facts.
- ``simulation``: both programs and a cluster on one thread, in virtual time, from a seed.
- ``contracts``: recorded and published behavior of other projects (vectors, observations,
  recordings), and the conformance suite of the fake API server.
- ``charts``: the Helm chart, rendered by real helm.
- ``scenarios``: tests with several steps; ``cluster``: tests with a real control plane.
- ``controlplane``: finds or builds that control plane; ``demo``, ``benchmarks``: commands.
- ``tidy``: rules of this project that no linter checks.

Ids: ``ctl-41`` or ``[E1]`` is a test of upstream (``cluster/upstream/README.md``); ids such as
``os-008`` are in ``data/elasticquota-*.json.gz``.

Not here: the fake API server, the virtual clock, and the builders; they ship with the package
(``shared_api.testing``).
"""
