"""Fakes for tests, shipped with the package because authors of plugins need them too.

- ``fake_api_server``: an API server in memory, in the process or over HTTP on loopback, with
  faults to switch on. Its conformance suite also runs against a real server.
- ``virtual_clock``: time that moves when it is told to.
- ``object_builders``: objects that show only what matters to a test.

Not here: anything that the two programs use. Importing this package from them is a broken contract
(``test-kit`` in pyproject.toml).
"""
