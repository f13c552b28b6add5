"""Rules of this project that no linter checks, each with a test that it can fail.

A rule is a function from a source file to findings. Every test module here has the rules of one
group, their exceptions (each with its reason), one test that the tree is clean, and one table of
planted sources that are not.

- ``source_tree``: the files of the checkout, read and parsed once.
- ``dockerfile``: the rules for the Dockerfile, which ``make image`` runs too.
- ``dependency_locks``: the hashed requirement files: how they are written, and what they contain.

Not here: what ruff, mypy, and import-linter can check (pyproject.toml).
"""
