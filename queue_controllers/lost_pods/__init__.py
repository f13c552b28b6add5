"""Pods that ask to be deleted when their node is lost (`deleteLostPods`).

    node deleted or unreachable -> its pods, if their jobs ask for it -> time over: deleted

Read in this order:

1. ``lost_nodes``: which nodes are lost, and since when; pure.
2. ``stated_times``: which job a pod is certainly of, and how long that waits.
3. ``lost_pod_controller``: which pods to look at, and when; ``pod_deleter``: looks at the node once
   more, and deletes.

Not here: what a lost pod is charged to. The scheduler counts it until its object is gone, since
koord-scheduler does: quota that is free only here would be given away twice.

Tested by ``tests/queue_controllers/lost_pods``.
"""
