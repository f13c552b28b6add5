"""The path to the API server, one entry: ``resource_client`` -> ``flow_control`` -> ``transport``.

Read in this order, which is from the wire up:

1. ``connection_settings``: where the server is and how to log in. ``kube_config`` reads them, and
   is the one module that imports the official ``kubernetes`` package; ``proxy_choice`` and
   ``credential_refresh`` help it.
2. ``errors``: what can go wrong, as one family.
3. ``transport``: what one request and its answer are; ``http_transport`` and ``http_connection``
   carry them over kept-alive connections, and are the only modules that open sockets.
4. ``flow_control``: queries per second, retries with backoff, ``Retry-After``.
5. ``resource_client``: get, list, watch, create, patch and delete of one kind;
   ``response_decoding`` reads what comes back; ``resource_types``: the kinds there are.
6. ``writes``, ``write_dispatcher``: writes as values, one in flight per object, a newer one merges
   into the waiting one.
7. ``event_recorder``: what users should see, aggregated and limited.
8. ``discovery``: which kinds the server has.

Not here: caches (``shared_api.informer``), and what to do about a conflict: that goes back to
the code that decided on the write.
"""
