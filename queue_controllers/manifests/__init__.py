"""What the controllers would make of a manifest, without a cluster: nothing is read or written.

Read in this order:

1. ``shared_api.manifest_documents``: the text of a manifest -> objects.
2. ``submissions``: objects -> jobs, as their extensions read them; what operators and the API
   server would add first is added here.
3. ``verdicts``: a job -> its unit, by the reader, the decisions and the words of a reconcile.

The scheduler imports this package to answer `POST /debug/try`, and no other of this program.

Tested by ``tests/queue_controllers/manifests``.
"""
