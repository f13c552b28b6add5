"""How answers are got.

- ``choice``: the cluster, namespace and credentials.
- ``cluster``: the API server, with the credentials of the kubeconfig; ``resources``: where the
  objects of a kind are; ``last_state``: what became of one that may be gone.
- ``questions``: what can be asked, each question with how every source is asked.
- ``sources``: the two APIs of Koord-Queue that answer, and which is asked, in which order.
  ``debug_api``: where one of them is; ``port_forward`` leads to it where it is not exposed.
- ``dump``: a file as a source, instead of a cluster; ``dry_run``: what the API server makes of
  objects and patches. ``media_types``: of what is sent.
- ``named``: which unit a user means; ``parts``: which one a pod is a part of; ``unmanaged``: why
  there is none, which ``controllers`` gets from those.
- ``installation``: what `koord-queue check` looks at.
- ``errors``: why there is no answer.

Tested by ``tests/koord_queue/reach``.
"""
