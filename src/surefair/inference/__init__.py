"""From a model, or from decisions, and evaluation rows to an interval."""
