"""What a release is made of; commands that the workflows of .github/ and the Makefile run.

- ``versions``: the files that name the version, and whether they agree with each other and a tag.
- ``changelog``: the sections of CHANGELOG.md, and the notes of a release.
- ``cut``: makes a release of what stands under "Unreleased" (``make cut VERSION=0.2.0``).
- ``licenses``: the licenses of what is bundled, as the table in THIRD_PARTY.md (``make licenses``).
- ``bill_of_materials``: the SBOM, from the lock and that table (in ``make dist``).
- ``chart``: the chart as an archive, with the digest of its image.
- ``krew``: the archives and the manifest for krew (``make krew``); ``krew_files`` goes into them.

``versions``, ``changelog`` and ``chart`` need nothing but Python, so that a workflow runs them
without an environment. Not here: the pins of workflows (``tests/tidy/test_workflows.py``).
"""
