"""
Audit a gradient boosting model
===============================

Somebody hands you a file of predictions and asks: does this model select women and men, and people of different races,
at different rates, and how certain is that? You do not need the model, only the file. Here the model predicts whether
a person in the Adult data earns more than 50,000 dollars.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import train_test_split

import surefair as sf

N_ROWS = 45_222  # all of them

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_ROWS = 6_000
# sphinx_gallery_end_ignore

# %%
# The file
# --------
# We play both parts. First we train the model on half of the rows and write its decisions about the other half to a
# file. An audit needs rows that the model was not trained on.

adult = sf.datasets.load_adult()
rows = pd.concat([adult.X, adult.sensitive_columns.add_prefix("group_")], axis=1).assign(
    income=adult.y
)
train, test = train_test_split(
    rows.sample(N_ROWS, random_state=0), test_size=0.5, random_state=0
)

model = HistGradientBoostingClassifier(random_state=0).fit(
    train[adult.X.columns], train["income"]
)
predictions = pd.DataFrame(
    {
        "sex": test["group_sex"],
        "race": test["group_race"],
        "income": test["income"],
        "decision": model.predict(test[adult.X.columns]),
    }
)
folder = Path(tempfile.mkdtemp())
predictions.to_csv(folder / "predictions.csv", index=False)
print(predictions.head(3).to_string(index=False))

# %%
# The audit
# ---------
# Now we are the auditor. ``margin`` is the largest gap between two groups that we accept; we chose it before we saw the
# file. ``min_share`` leaves groups with less than 1 % of the rows out of the comparison; the report still shows them.
# The command ``surefair audit predictions.csv --decision decision ...`` does the same.

found = sf.audit(
    folder / "predictions.csv",
    decision="decision",
    label="income",
    sensitive=["sex", "race"],
    margin=0.1,
    min_share=0.01,
)
found

# %%
# ``found.to_html`` writes the report to hand on, and ``found.to_json`` the same for programs.

found.to_html(folder / "report.html")
found.to_json(folder / "audit.json")
print(sorted(path.name for path in folder.iterdir()))

# %%
# All metrics at a glance
# -----------------------
# With a label, the audit measures every metric. Only the one that we named beforehand, here demographic parity, gets a
# verdict.

sf.plotting.AuditDisplay.from_audit(found, source="evaluation")
plt.show()

# %%
# What to conclude
# ----------------
# The whole interval for demographic parity lies beyond the margin, so the verdict is definite. The other metrics show
# where to look next. Intervals of rates that look at a part of the rows, such as precision, are wide: some groups have
# few people whom the model selects.
#
# The intervals are about this very model, in the population that the rows come from. They do not say what a model
# trained on other rows would do, nor why rates differ. In Adult the labels differ between the groups too (base rate in
# the plot), and no interval tells you whether those labels are right.
