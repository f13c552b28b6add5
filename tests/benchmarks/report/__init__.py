"""BENCHMARKS.md, made of results and texts: `python -m tests.benchmarks report`.

- `results`: what a run of a stage has measured, and on which machine: JSON in `../results`.
- `aims`: what each figure should be.
- `tables`: figures as Markdown; `scores`: the tables of forecasts; `plot`: ratios to aims, as SVG.
- `document`: fills `BENCHMARKS.md.in`, which has the texts.
- `command`: the command line.
"""
