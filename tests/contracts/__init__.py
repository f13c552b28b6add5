"""Recorded behavior of other projects, replayed against this project's code.

``elasticquota_vectors`` and ``elasticquota_observed`` (commands that take a file, and the tests
beside them) compare the quota code with Koordinator's own numbers; ``koordinator_model`` and
``koordinator_webhook`` restate what koord-scheduler does around the division.
``operator_recordings`` replays what real job operators did; ``api_server`` compares the fake API
server with a real one.
"""
