"""Audits of decisions or scores that exist already: a file is counted in one pass, and the counts give the intervals.

``settings`` says what is asked, ``intake`` turns tables into codes, ``tally`` counts them, ``evidence`` turns counts
into intervals, ``findings`` writes them down, and ``run`` leads from a file to an ``Audit``.
"""
