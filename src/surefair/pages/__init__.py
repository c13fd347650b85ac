"""Pieces that any HTML report uses: text, charts, and the page around them."""
