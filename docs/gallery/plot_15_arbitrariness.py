"""
How often would another model decide differently?
=================================================

Two models that are trained on different samples of the same population disagree about some people. For these people the
decision depends on who else happened to be in the training data. How many are they, and are they mostly in one group?
Here forests decide about the loans of German credit, and the groups are two ages.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import surefair as sf

N_TREES, N_REPLICATES = 60, 30
BLUE, ORANGE = "#0072B2", "#D55E00"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_TREES, N_REPLICATES = 10, 10
# sphinx_gallery_end_ignore

# %%
# One fit and thirty refits
# -------------------------
# ``BootstrapClassifier`` fits the forest once, and then again with random weights of the rows. The refits stand for
# models that other samples of applicants would have given.

german = sf.datasets.load_german()
X, X_test, y, y_test, _, age = train_test_split(
    german.X,
    german.y,
    german.sensitive_columns["age"],
    test_size=0.5,
    stratify=german.y,
    random_state=0,
)
forest = RandomForestClassifier(N_TREES, min_samples_leaf=3, random_state=0)
clf = sf.BootstrapClassifier(forest, n_replicates=N_REPLICATES, random_state=0).fit(X, y)
print(f"accuracy {clf.score(X_test, y_test):.3f}")

# %%
# How arbitrary are the decisions?
# --------------------------------

found = clf.arbitrariness(X_test, sensitive_features=age)
found

# %%
sf.plotting.ArbitrarinessDisplay(found).plot()
plt.show()

# %%
# Who is it?
# ----------
# For each applicant, the share of refits that call the loan a good risk. Applicants in the middle get a decision that
# another sample might turn around.

share = np.mean([refit.predict(X_test) == "good" for refit in clf.estimators_], axis=0)
fig, ax = plt.subplots(figsize=(7.0, 3.6), layout="constrained")
edges = np.linspace(0.0, 1.0, 11)
for i, (group, colour, hatch) in enumerate(
    (("above 25", BLUE, ""), ("up to 25", ORANGE, "//"))
):
    counts = np.histogram(share[age == group], edges)[0] / np.sum(age == group)
    at = edges[:-1] + 0.03 + 0.04 * i
    label = f"{group} (n = {np.sum(age == group):,})"
    ax.bar(
        at, counts, width=0.04, color=colour, hatch=hatch, edgecolor="white", label=label
    )
ax.set(xlabel="share of refits that say 'good'", ylabel="share of the group")
ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
ax.set_title("How far the refits agree about each applicant", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
ax.legend(frameon=False, title="age")
# sphinx_gallery_thumbnail_number = 2
plt.show()

# %%
# What to conclude
# ----------------
# With 500 training rows, a clear share of the decisions depends on the sample. If a decision matters to people, this
# number belongs beside the accuracy. Applicants in the middle of the last plot are candidates for a second look.
#
# Disagreement is not the same as error: two models can agree and both be wrong. A difference between groups, where the
# intervals show one, means that one group's decisions are less settled; it does not say in whose favour. More training
# rows make decisions less arbitrary, and a simpler model often does too.
