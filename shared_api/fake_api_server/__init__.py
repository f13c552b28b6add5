"""An API server in memory, in process or over HTTP on loopback, for tests and the demo.

What it is made of, from the outside in:

1. ``server``: the whole. Start here. ``faults``: what may go wrong with requests;
   ``direct_access``: arranging a test past them.
2. ``http_server``: sockets, threads, HTTP; any transport can stand behind it.
3. ``request_router``: a path and a method become a call; ``response_formats``, ``table_printer``,
   ``builtin_columns``, ``discovery_documents``, ``access_reviews``, ``api_errors``: responses.
4. ``list_and_watch``, ``watch_stream``, ``selectors``: lists and watches.
5. ``writes``, ``object_metadata``, ``patching``: how a write becomes the next version.
6. ``resource_registry``: what is special about a kind; ``builtin_kinds``, ``job_rules``,
   ``pod_rules``, ``custom_resources``, ``schema_validation``: the special rules themselves.
7. ``object_storage``: objects, versions, history; ``garbage_collector``: what owners leave behind.

Its conformance suite (tests/contracts/api_server) also runs against a real server. It is in the
wheel and not in the image.

Not here: anything that the two programs use. Importing this package from them is a broken contract
(``test-kit`` in pyproject.toml).
"""
