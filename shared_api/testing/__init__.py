"""Tools for tests of plugins and adapters; shipped with the package for their authors.

- ``fake_api_server``: an API server in memory, in process or over HTTP on loopback. Start here.
- ``faults``: injected failures of requests; ``direct_access``: reads and writes without requests.
- ``virtual_clock``: a clock that tests advance.
- ``object_builders``: objects that state only what matters to a test.

Not here: the parts of the server (``shared_api.fake_api_server``), and anything that the two
programs use: they must not import this package (contract ``test-kit`` in pyproject.toml).

Tested by ``tests/shared_api/testing``.
"""
