"""An API server in memory, in process or over HTTP on loopback, for tests and the demo.

Its modules, from the outside in:

1. ``server``: the entry point. ``faults``: injected failures of requests; ``open_watches``: what a
   test does to watches; ``direct_access``: reads and writes that bypass both.
2. ``http_server``: sockets, threads, HTTP; serves any transport.
3. ``request_router``: maps a path and a method to a call; ``response_formats``, ``table_printer``,
   ``builtin_columns``, ``discovery_documents``, ``access_reviews``, ``api_errors``: responses.
4. ``list_and_watch``, ``watch_stream``, ``selectors``: lists and watches.
5. ``writes``, ``object_metadata``, ``patching``: how a write produces the next version.
6. ``resource_registry``: the properties of a kind; ``builtin_kinds``, ``job_rules``,
   ``pod_rules``, ``custom_resources``, ``schema_validation``: the rules of each kind.
7. ``object_storage``: objects, versions, history; ``garbage_collector``: deletes dependents.

The conformance suite (tests/contracts/api_server) also runs against a real server. The package is
in the wheel, but not in the image.

Not here: anything that the two programs use: they must not import this package (contract
``test-kit`` in pyproject.toml).

Tested by ``tests/shared_api/fake_api_server``.
"""
