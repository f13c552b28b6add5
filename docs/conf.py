"""The site of docs/: `make docs` builds it into build/docs/html. Nothing is loaded from outside."""

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

project = "Koord-Queue"
author = "The Koord-Queue authors"
extensions = ["myst_parser", "tests.docs.site_extension"]
exclude_patterns = ["_static", "_templates"]
# Anchors as GitHub makes them, so that links work in both.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
highlight_language = "none"
html_show_search_summary = False
html_use_index = False
html_domain_indices = False
# Every name is looked for, and a missing page or heading fails the build (-n -W).
nitpicky = True
# Two dashes begin a flag.
smartquotes = False

html_theme = "furo"
html_title = "Koord-Queue"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
templates_path = ["_templates"]


def setup(app: Sphinx) -> None:
    """Show traces as text: the highlighter does not know the language that GitHub knows."""
    app.add_lexer("csv", TextLexer)
