"""Sphinx extension: formulas as MathML, which browsers draw without a script and without a network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer "mathml"."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def visit_math(translator: Any, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(as_mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def visit_math_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula in its own block."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    translator.body.append(as_mathml(node.astext(), as_block=True) + "</div>")
    raise nodes.SkipNode


def as_mathml(formula: str, *, as_block: bool) -> str:
    """Translate LaTeX to MathML, with a detour around two gaps of docutils."""
    formula = re.sub(r"\\operatorname\{(\w+)\}", r"\\mathrm{\1}", formula)  # it knows only some names
    formula = re.sub(r"(\\(?:bar|hat|tilde)\\?[A-Za-z]+)_", r"\1{}_", formula)  # it would set the index below
    return latex2mathml.tex2mathml(formula, as_block=as_block)
