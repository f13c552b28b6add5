"""How the API server learns where the aggregated API is: one APIService, published and withdrawn.

An APIService that nobody answers for stops the deletion of every namespace of the cluster: the
namespace controller deletes nothing for good while the discovery of a group fails. So the object is
there only while the API is served:

1. ``api_service``: the object, and how it is read and written.
2. ``guard``: in the scheduler, which stays up when the insight program ends: it deletes an
   APIService that has been unavailable for a while.

``queue_insight.visibility.registration`` publishes it, and withdraws it at an orderly end.

Tested by ``tests/queue_insight/api_registration``.
"""
