"""
Can you believe the intervals on your own data?
===============================================

A 95 % interval should contain the truth 95 % of the time. Does it, for your data, your number of rows and your
settings? ``sf.calibrate`` treats your rows as the whole population, so that it knows the truth, and counts. Here the
population is Adult, and we ask about models that are trained on 2,000 rows.
"""

import matplotlib.pyplot as plt

import surefair as sf

N_POPULATION, N_ROWS, REPETITIONS = 20_000, 2_000, 60
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
# intervals are compared with the truth. We try two methods for intervals of coefficients: "basic", the default, and
# "percentile". ``n_jobs=-1`` would use all cores.

adult = sf.datasets.load_adult()
rows = adult.X.sample(N_POPULATION, random_state=0).index
clf = sf.FairClassifier(
    "demographic_parity", tolerance=0.05, n_replicates=100, random_state=0
)
found = {
    method: sf.calibrate(
        clf,
        adult.X.loc[rows, COLUMNS],
        adult.y[rows],
        sensitive_features=adult.sensitive[rows],
        n_rows=N_ROWS,
        repetitions=REPETITIONS,
        coef_method=method,
        sources="total",
        progress=False,
    )
    for method in ("basic", "percentile")
}
found["basic"]

# %%
# The picture
# -----------
# Dots are shares of intervals that contained the truth. Lines show how far the number of repetitions lets us know these
# shares. The first line is the gap; the others are coefficients.

fig, axes = plt.subplots(1, 2, figsize=(9.0, 3.6), sharex=True, layout="constrained")
for ax, (method, one) in zip(axes, found.items(), strict=True):
    sf.plotting.CalibrationDisplay(one).plot(ax=ax)
    ax.set_title(f"coef_method={method!r}", fontsize="medium")
fig.suptitle(f"Coverage of 95 % intervals, {REPETITIONS} repetitions of {N_ROWS:,} rows")
plt.show()

# %%
# The table has more
# ------------------
# ``bias`` is the mean error of the estimates in units of their standard deviation. ``spread_ratio`` compares the spread
# that the bootstrap believes in with the true one; at 1 they agree.

columns = ["quantity", "source", "coverage", "width", "bias", "spread_ratio"]
found["percentile"].table[columns].round(3)

# %%
# What to conclude
# ----------------
# Where a line reaches into the shaded band, this study gives no reason to doubt the intervals of that quantity; that is
# so for the gap. A line that stays below the band means: do not take these intervals at face value. With "basic"
# this happens to the coefficient of marital-status, and "percentile" is the better choice for these data.
#
# A share is known only as well as the number of repetitions allows. If you try many settings, run the one you choose
# again with another ``random_state``. And the study is about *random samples* of this population: it says nothing about
# rows that depend on each other, or about a population that changes.
