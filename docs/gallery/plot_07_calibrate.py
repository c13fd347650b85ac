"""
Can you believe the intervals on your own data?
===============================================

A 95 % interval should contain the truth 95 % of the time. Does it, for your data, your number of rows and your
settings? ``sf.calibrate`` treats your rows as the whole population, so that it knows the truth, and counts. Here the
population is Adult, and we ask about models that are trained on 2,000 rows.
"""

import matplotlib.pyplot as plt

import surefair as sf

N_POPULATION, N_ROWS, REPETITIONS = 20_000, 2_000, 100
COLUMNS = ["age", "education-num", "marital-status", "capital-gain", "hours-per-week"]

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_POPULATION, REPETITIONS = 5_000, 10
# sphinx_gallery_end_ignore

# %%
# The study
# ---------
# In each repetition, training rows and evaluation rows are drawn, a classifier is fitted with its replicates, and its
# intervals are compared with the truth. ``n_jobs=-1`` would use all cores.

adult = sf.datasets.load_adult()
rows = adult.X.sample(N_POPULATION, random_state=0).index
clf = sf.FairClassifier("demographic_parity", tolerance=0.05, n_replicates=100, random_state=0)
found = sf.calibrate(
    clf,
    adult.X.loc[rows, COLUMNS],
    adult.y[rows],
    sensitive_features=adult.sensitive[rows],
    n_rows=N_ROWS,
    repetitions=REPETITIONS,
    progress=False,
)
found

# %%
# The picture
# -----------
# Dots are shares of intervals that contained the truth. Lines show how far the number of repetitions lets us know these
# shares.

sf.plotting.CalibrationDisplay.from_calibration(found)
plt.show()

# %%
# The table has more
# ------------------
# ``spread_ratio`` compares the spread that the bootstrap believes in with the true spread over repetitions; at 1 they
# agree.

found.table[["quantity", "source", "coverage", "coverage_low", "coverage_high", "width", "spread_ratio"]].round(3)

# %%
# What to conclude
# ----------------
# Where a line reaches into the shaded band, this study gives no reason to doubt the intervals of that quantity; here
# that is so for all intervals of the gap. A line that stays below the band, like that of marital-status, means: with
# this many rows, do not take these intervals at face value. Use more rows, or another ``coef_method``, and run the
# study again.
#
# A share is known only as well as the number of repetitions allows. And the study is about *random samples* of this
# population. It says nothing about rows that depend on each other, or about a population that changes.
