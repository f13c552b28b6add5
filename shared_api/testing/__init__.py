"""Fakes for tests, shipped with the package because authors of plugins need them too.

What tests use:

- ``fake_api_server``: an API server in memory, in process or over HTTP on loopback. Start here.
- ``faults``: what may go wrong with requests; ``direct_access``: arranging a test past them.
- ``virtual_clock``: time that moves when it is told to.
- ``object_builders``: objects that show only what matters to a test.

What the fake server is made of, from the outside in:

1. ``http_face``: sockets, threads, HTTP; any transport can stand behind it.
2. ``request_router``: a path and a method become a call; ``answer_forms``, ``table_printer``,
   ``builtin_columns``, ``discovery_documents``, ``access_reviews``, ``failure_status``: answers.
3. ``read_path``, ``watch_stream``, ``selectors``: lists and watches.
4. ``write_path``, ``object_metadata``, ``patching``: how a write becomes the next version.
5. ``served_resources``: what is special about a kind; ``builtin_kinds``, ``job_rules``,
   ``pod_rules``, ``custom_resources``, ``schema_validation``: and what those special things are.
6. ``object_storage``: objects, versions, history; ``garbage_collector``: what owners leave behind.

Its conformance suite (tests/contracts/api_server) also runs against a real server.

Not here: anything that the two programs use. Importing this package from them is a broken contract
(``test-kit`` in pyproject.toml).
"""
