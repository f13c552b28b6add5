"""The site of docs/: how it is built, what is generated for it, and which commands are run.

`reference_*.py` make the tables of docs/reference from the sources; `site_extension.py` puts them
into the pages while Sphinx reads these (docs/conf.py). `page_commands.py` finds the commands of all
pages. The commands themselves run in tests/cluster, which has the control plane.
"""
