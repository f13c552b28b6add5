"""What `koord-queue check` looks at.

1. `findings`: what is said about one part.
2. `facts`: what was asked of the API server, with what it refused.
3. `server`, `programs`, `rights`, `policies`, `api_service`, `objects`, `pods`, `koordinator`,
   `upstream`: the checks, by subject.
4. `every_check`: the checks in their order.

Everything is pure, from facts to findings. `reach.installation` asks.

Tested by ``tests/koord_queue/checks``.
"""
