"""Authentication and authorization, by TokenReview and SubjectAccessReview of the API server.

Three doors share it: the debug and metrics ports (``shared_api.program``), the page
(``queue_insight.page.login``) and the aggregated API (``queue_insight.visibility.server``). Each
has an authorizer of its own, with a policy of its own.

Read in this order:

1. ``caller``: who asks; ``rights``: what it would do.
2. ``reviews``: the two requests to the API server, and their results.
3. ``review_cache``: results for a bounded time, and up to a bounded number.
4. ``authorizer``: all of them together, by a policy.

Not here: how a door learns of a caller's token or certificate, how it shares its places among
addresses and users (``shared_api.caller_shares``), and in which words it refuses.

Tested by ``tests/shared_api/authorization``.
"""
