"""One conformance suite for API servers: the fake in process, the fake over HTTP, a real one.

What the project relies on is asserted here, so that a test with the fake proves something.
`server_under_test` has the servers and the client of the tests; the tests are grouped by subject.
`pytest tests/contracts/api_server -m "not cluster"` excludes the real server.
"""
