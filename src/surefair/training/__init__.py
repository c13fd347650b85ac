"""From a problem and rows to a model."""
