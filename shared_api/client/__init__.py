"""The client of the API server: ``resource_client`` -> ``flow_control`` -> ``transport``.

Read in this order, from the wire up:

1. ``connection_settings``: where the server is and how to log in. ``kube_config`` reads them, and
   is the only module that imports the official ``kubernetes`` package; it uses ``proxy_choice`` and
   ``credential_refresh``.
2. ``errors``: what can go wrong, as one hierarchy of exceptions.
3. ``transport``: what one request and its answer are; ``http_transport`` and ``http_connection``
   carry them over kept-alive connections, and are the only modules that open sockets.
4. ``flow_control``: queries per second, retries with backoff, ``Retry-After``.
5. ``resource_client``: get, list, watch, create, patch and delete of one kind;
   ``response_decoding`` decodes the answers; ``resource_types`` lists the kinds in use.
6. ``writes``, ``write_dispatcher``: writes as values, one in flight per object; a newer one is
   merged into one that waits.
7. ``event_recorder``: events for users, aggregated and limited.
8. ``discovery``: which kinds the server has.

Not here: caches (``shared_api.informer``), and the handling of conflicts, which is up to the code
that decided on the write.

Tested by ``tests/shared_api/client``.
"""
