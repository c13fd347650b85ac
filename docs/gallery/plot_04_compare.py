"""
Which of two models is less unfair?
===================================

A new model is about to replace the old one. Is it less unfair, or more? Two intervals that overlap do not answer that.
A paired comparison on the same rows often does. Here a gradient boosting model challenges a logistic regression on
Adult. We compare false-positive rates: how often each model takes a woman or a man who earns less for a high earner.
"""

import matplotlib.pyplot as plt
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import surefair as sf

N_TRAIN, N_TEST = 20_000, 12_000
BLUE, ORANGE = "#0072B2", "#D55E00"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_TRAIN, N_TEST = 3_000, 3_000
# sphinx_gallery_end_ignore

# %%
# Two models, the same rows
# -------------------------

adult = sf.datasets.load_adult(encoding="onehot")
X_train, X_test, y_train, y_test, _, sex = train_test_split(
    adult.X, adult.y, adult.sensitive, train_size=N_TRAIN, test_size=N_TEST, random_state=0
)
old = LogisticRegression(max_iter=2_000).fit(X_train, y_train).predict(X_test)
new = HistGradientBoostingClassifier(random_state=0).fit(X_train, y_train).predict(X_test)

# %%
# The comparison
# --------------
# ``sf.compare`` returns the difference of the two unfairnesses with an interval, the difference of accuracy, and a
# verdict.

found = sf.compare(
    y_test,
    old,
    new,
    sensitive_features=sex,
    metric="false_positive_rate",
    names=("old", "new"),
)
found

# %%
# Why pairing matters
# -------------------
# Rows on which both models decide the same cancel in the difference. The lower panel shows the
# interval of the difference, and the one that two independent samples would give.

apart = ((found.a.high - found.a.low) ** 2 + (found.b.high - found.b.low) ** 2) ** 0.5 / 2.0

fig, (top, bottom) = plt.subplots(2, 1, figsize=(7.0, 4.4), layout="constrained")
for i, one in enumerate((found.a, found.b)):
    top.errorbar(
        one.estimate,
        i,
        xerr=[[one.estimate - one.low], [one.high - one.estimate]],
        fmt="o",
        color=BLUE,
    )
top.set_yticks([0, 1], labels=found.names)
top.set(ylim=(1.5, -0.5), xlabel="unfairness: gap in false-positive rates")
top.set_title("Each model by itself, 95 % intervals", fontsize="medium")
bottom.errorbar(
    found.estimate,
    0,
    xerr=[[found.estimate - found.low], [found.high - found.estimate]],
    fmt="o",
    color=BLUE,
)
bottom.errorbar(found.estimate, 1, xerr=apart, fmt="s", color=ORANGE)
bottom.axvline(0.0, color="0.25", linestyle="--")
bottom.set_yticks([0, 1], labels=["paired", "as if independent"])
bottom.set(ylim=(1.5, -0.5), xlabel="unfairness of new minus unfairness of old")
bottom.set_title(f"The difference: {found.verdict}", fontsize="medium")
for ax in (top, bottom):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to conclude
# ----------------
# The verdict above is the one to act on: it says which model is less unfair on this metric, or that these rows do not
# decide it. In that case ``found.rows_needed()`` says how many more rows would, if the estimates stayed as they are.
#
# The comparison is about these two models as they are. Two other fits, from other training rows, might compare
# differently. And a model can be less unfair in one metric and more unfair in another: name the metric before you look.
