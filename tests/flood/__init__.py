"""Floods of each port by each kind of user: `make flood`, and a short form among the cluster tests.

Some user asks the dearest answers of a port, 200 at a time. Meanwhile jobs are created, another
user asks each port for something cheap, and a kubelet probes. What these get is compared with the
same run without the flood.

- ``http_connection``: one client of a port, and what it asks.
- ``questions``: what each port can be asked, and by whom.
- ``flooding``: the process that floods; ``still_server`` is what it floods for the control.
- ``flood_world``: an installation of the chart with all programs, its users, and what waits.
- ``bystanders``: who asks something cheap; ``steady_jobs``: the jobs that are to start.
- ``rounds``: one flood, from the search for the dearest answers to the rest afterwards.
- ``judgement``: what is wrong with the figures of a round; ``report`` prints them.
"""
