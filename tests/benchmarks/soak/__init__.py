"""Soaks: `python -m tests.benchmarks soak`. Does anything grow that should not?

- `growth`: the verdict on what was sampled; pure.
- `virtual_soak`: days of a trace through the engine in virtual time; `engine_entries` counts what
  the engine keeps.
- `cluster_soak`: both programs on a real control plane, with Jobs and a fault every minute;
  `faults`, `job_stream` and `program_samples` are its parts, `cut_proxy` the network between.
- `command`: the command line.
"""
