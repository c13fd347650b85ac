"""Audits: from a file to a finding, a JSON file and a page."""
