"""Choosing between models by how unfair they are."""
