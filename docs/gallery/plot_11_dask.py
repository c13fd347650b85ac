"""
Fit the partitions of a Dask data frame
=======================================

Your rows are on several machines, and no machine can hold them all. Does a fit of the parts, merged, give the answer
that one pass over all rows would give? Here Dask holds Adult in partitions, ``sf.parallel.fit_partitions`` fits each of
them where it is stored, and we compare the merged fit with a fit on one machine.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

import surefair as sf

try:
    import dask.dataframe as dd
    from distributed import Client
except ImportError:
    dd = None
    print("Dask is not installed, so this page shows one fit only.")
    print("Install it with: pip install 'surefair[dask]'")

N_TRAIN, N_PARTITIONS = 30_000, 3
COLUMNS = ["age", "education-num", "marital-status", "occupation", "hours-per-week"]
BLUE, ORANGE = "#0072B2", "#D55E00"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_TRAIN, N_PARTITIONS = 9_000, 2
# sphinx_gallery_end_ignore

# %%
# Rows
# ----
# Partitions must be random parts of the rows, so we shuffle first. All fits begin with the same warm-up rows, which are
# in no partition.

adult = sf.datasets.load_adult()
rows = adult.X[COLUMNS].assign(sex=adult.sensitive, income=(adult.y == ">50K").astype(int))
train, test = train_test_split(rows, train_size=N_TRAIN, test_size=10_000, random_state=0)
warmup, rest = train.iloc[:4_000], train.iloc[4_000:]
settings = {
    "criterion": "demographic_parity",
    "tolerance": 0.05,
    "solver": "one_pass",
    "random_state": 0,
}

# %%
# Fit
# ---
# ``Client(processes=False)`` is a cluster inside this process. Give it the address of yours instead.

fits = {}
fits["one machine"] = sf.FairClassifier(**settings, n_warmup=4_000).fit(
    train[COLUMNS], train["income"], sensitive_features=train["sex"]
)
if dd is not None:
    with Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
        data = dd.from_pandas(rest, npartitions=N_PARTITIONS)
        fits[f"{N_PARTITIONS} partitions"] = sf.parallel.fit_partitions(
            sf.FairClassifier(**settings, n_warmup=4_000),
            data,
            label="income",
            sensitive="sex",
            warmup=warmup,
        )
for name, clf in fits.items():
    found = clf.fairness_interval(
        test[COLUMNS], test["income"], sensitive_features=test["sex"]
    )
    limits = f"{found.estimate:.3f} [{found.low:.3f}, {found.high:.3f}]"
    print(f"{name}: {clf.n_rows_:,} rows, unfairness {limits}")

# %%
# Coefficients
# ------------

fig, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
for i, ((name, clf), colour, marker) in enumerate(
    zip(fits.items(), (BLUE, ORANGE), "os", strict=False)
):
    table = clf.coef_interval()
    at = [j - 0.12 + 0.24 * i for j in range(len(table))]
    errors = [table["estimate"] - table["low"], table["high"] - table["estimate"]]
    ax.errorbar(
        table["estimate"],
        at,
        xerr=errors,
        fmt=marker,
        color=colour,
        markersize=5,
        label=name,
    )
ax.set_yticks(range(len(table)), labels=table["feature"])
ax.axvline(0.0, color="0.25", linestyle="--")
ax.set(ylim=(len(table) - 0.5, -0.5), xlabel="coefficient, with 95 % intervals")
ax.set_title("One pass over all rows, and partitions fitted separately", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False)
plt.show()

# %%
# What to conclude
# ----------------
# The merged fit and the fit on one machine differ by little, compared with their intervals, and the intervals have
# about the same width. Rows stay with the workers, which send back the states of their fits.
#
# The two are not equal bit by bit, and they need not be. This holds for partitions that are random parts of the rows
# and long. Partitions by day, place or customer are neither: shuffle before you cut.
