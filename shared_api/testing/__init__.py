"""What tests of plugins and adapters build on; it is shipped with the package for their authors.

- ``fake_api_server``: an API server in memory, in process or over HTTP on loopback. Start here.
- ``faults``: what may go wrong with requests; ``direct_access``: arranging a test past them.
- ``virtual_clock``: a clock that tests move by hand.
- ``object_builders``: objects that show only what matters to a test.

Not here: the parts of the server (``shared_api.fake_api_server``), and anything that the two
programs use. Importing this package from them is a broken contract (``test-kit`` in
pyproject.toml).
"""
