"""The Helm chart: what it renders, and the reference of its values.

- ``render``: runs the real helm and returns the objects; also for other tests that need what the
  chart would install, such as its roles.
- ``values_reference``: a command, not a test; writes values.schema.json and the table in the
  chart's README from the comments in values.yaml (``make schema``).
- ``test_*``: need only helm.

Not here: the chart on a real API server (``tests/cluster/test_chart.py``).
"""
