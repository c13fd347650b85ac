"""
Measure a River model as it learns
==================================

River trains models one row at a time. How do you know how differently such a model treats groups while it learns?
``surefair.monitor.river`` has a metric in River's protocol, whose interval is valid however often you look, and a
classifier with a constraint. The rows of Adult play the stream.
"""

import matplotlib.pyplot as plt

import surefair as sf

try:
    from river import linear_model, preprocessing

    from surefair.monitor.river import RiverFairClassifier, Unfairness
except ImportError:
    linear_model = None
    print("River is not installed, so there is nothing to see on this page.")
    print("Install it with: pip install surefair[river]")

N_ROWS, EVERY = 6_000, 300
BLUE, ORANGE = "#0072B2", "#D55E00"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_ROWS, EVERY = 1_600, 200
# sphinx_gallery_end_ignore

# %%
# Predict, measure, learn
# -----------------------
# Each row is first predicted, then measured, then learnt, so no model has seen the row that it is measured on.

adult = sf.datasets.load_adult()
rows = adult.X.sample(N_ROWS, random_state=0)
stream = [
    (x, label == ">50K", sex)
    for x, label, sex in zip(
        rows.to_dict("records"),
        adult.y[rows.index],
        adult.sensitive[rows.index],
        strict=True,
    )
]


def follow(model, with_group):
    """Return the number of rows and the anytime interval at every look."""
    metric = Unfairness("demographic_parity", margin=0.1)
    path = []
    for i, (x, label, sex) in enumerate(stream, start=1):
        row = x | {"sex": sex} if with_group else x
        decision = model.predict_one(row)
        if decision is not None:  # before the first rows are learnt
            metric.update(y_true=label, y_pred=decision, group=sex)
        model.learn_one(row, label)
        if i % EVERY == 0 and i > 2 * EVERY:
            path.append((i, metric.interval()))
    print(f"{metric}, {metric.verdict}")
    return path


# %%
# The constrained model learns from the same features. It needs the group to learn the constraint, not to predict.

paths = {}
if linear_model is not None:
    logistic = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    paths["River's logistic regression"] = follow(logistic, with_group=False)
    clf = sf.FairClassifier(
        "demographic_parity", tolerance=0.03, n_replicates=0, n_warmup=400, random_state=0
    )
    paths["with a constraint"] = follow(
        RiverFairClassifier(clf, sensitive="sex"), with_group=True
    )

# %%
fig, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
for (name, path), colour, style in zip(
    paths.items(), (ORANGE, BLUE), ("--", "-"), strict=False
):
    at = [n for n, _ in path]
    ax.plot(
        at, [one.estimate for _, one in path], color=colour, linestyle=style, label=name
    )
    ax.fill_between(
        at,
        [one.low for _, one in path],
        [one.high for _, one in path],
        color=colour,
        alpha=0.2,
        linewidth=0,
    )
ax.axhline(0.1, color="0.25", linestyle=":", label="margin 0.1")
ax.set(xlabel="rows", ylabel="unfairness so far: gap in selection rates", ylim=(0.0, None))
ax.set_title(
    "Two models that learn one row at a time, with 95 % bands for all looks",
    fontsize="medium",
)
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# What to conclude
# ----------------
# You can stop at any row and report the band at that moment: it holds for all looks together. The two bands separate
# after some thousand rows.
#
# A model that learns is not the same model at every row. The measured gap is that of all decisions so far, early
# ones included, and the band is exact only for rates that do not change. For the gap of the model as it is now, measure
# it on rows set aside: ``RiverFairClassifier.interval`` does that.
