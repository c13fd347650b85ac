"""
Train under a constraint, and get intervals
===========================================

What does a constraint change, and how far can you trust the change? A constraint holds for the rows that the model was
trained on. Here we train a linear model on Adult with and without one, and look at what each part of the uncertainty
contributes.
"""

import matplotlib.pyplot as plt
from sklearn.model_selection import train_test_split

import surefair as sf

N_TRAIN, N_TEST = 20_000, 20_000
BLUE, ORANGE = "#0072B2", "#D55E00"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_TRAIN, N_TEST = 3_000, 2_000
# sphinx_gallery_end_ignore

# %%
# Two models
# ----------
# ``tolerance`` is the largest gap in selection rates between women and men that the constraint allows on the training
# rows. Each model comes with 200 bootstrap replicates, which learn the constraint too.

adult = sf.datasets.load_adult()
X_train, X_test, y_train, y_test, sex_train, sex_test = train_test_split(
    adult.X, adult.y, adult.sensitive, train_size=N_TRAIN, test_size=N_TEST, random_state=0
)
constrained = sf.FairClassifier("demographic_parity", tolerance=0.05, random_state=0)
constrained.fit(X_train, y_train, sensitive_features=sex_train)
free = sf.FairClassifier(None, random_state=0).fit(X_train, y_train)
for name, model in {"free": free, "constrained": constrained}.items():
    print(f"{name}: accuracy {model.score(X_test, y_test):.3f}")

# %%
# What each interval covers
# -------------------------
# The same two models, measured on the same test rows, have four intervals each. They answer different questions.

QUESTIONS = {
    "evaluation": "this very model,\nin the population",
    "training": "unlimited training rows,\non these test rows",
    "retraining": "trained again on as many rows,\non these test rows",
    "total": "unlimited training rows,\nin the population",
}
found = {
    (name, source): model.fairness_interval(
        X_test,
        y_test,
        sensitive_features=sex_test,
        metric="demographic_parity",
        source=source,
    )
    for name, model in {"free": free, "constrained": constrained}.items()
    for source in QUESTIONS
}
found["constrained", "total"]

# %%

fig, ax = plt.subplots(figsize=(7.0, 4.2), layout="constrained")
for (name, source), interval in found.items():
    is_free = name == "free"
    at = list(QUESTIONS).index(source) + (-0.12 if is_free else 0.12)
    style = {"color": ORANGE, "marker": "s"} if is_free else {"color": BLUE, "marker": "o"}
    ax.plot([interval.low, interval.high], [at, at], color=style["color"], linewidth=2.0)
    ax.plot(
        [interval.estimate],
        [at],
        linestyle="",
        label=name if source == "total" else None,
        **style,
    )
ax.axvline(0.05, color="0.25", linestyle="--", label="tolerance 0.05")
ax.set_yticks(
    range(len(QUESTIONS)),
    labels=[f"{source}:\n{words}" for source, words in QUESTIONS.items()],
)
ax.set(
    xlim=(0.0, None),
    ylim=(3.5, -0.5),
    xlabel="unfairness: gap in selection rates, with 95 % intervals",
)
ax.set_title("Unfairness of both models, by what the interval covers", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
fig.legend(loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# The verdict, and what would settle it
# -------------------------------------
# An interval of source ``total`` or ``evaluation`` gives a verdict about a margin.

interval = found["constrained", "total"]
for margin in (0.05, 0.1):
    print(f"margin {margin}: {interval.verdict(margin)}")
needed = interval.rows_needed(0.05)
print(f"factor by which the rows must grow to settle a margin of 0.05: {needed.times:.3g}")

# %%
# What to conclude
# ----------------
# The constraint moves the whole interval: the two models differ by far more than chance. On the training rows the gap
# of the constrained model is at its tolerance, and on other rows it can be on either side. So if you need a gap below a
# margin with confidence, train with a tolerance that is clearly smaller than the margin.
#
# Do not read the accuracy alone, nor the gap alone. And do not take an interval of source ``training`` for a statement
# about the population: it takes the test rows as they are.
