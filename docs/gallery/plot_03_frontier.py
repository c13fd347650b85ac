"""
What does less unfairness cost?
===============================

A smaller gap usually costs some accuracy. How much, for which gap, and how certain is that? ``sf.frontier`` trains a
model for each of several tolerances on the same rows. Here the models predict whether a person in the Adult data earns
more than 50,000 dollars, and the groups are women and men.
"""

import matplotlib.pyplot as plt

import surefair as sf

N_ROWS = 20_000
TOLERANCES = [0.12, 0.09, 0.06, 0.03, 0.0]
BLUE = "#0072B2"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_ROWS, TOLERANCES = 4_000, [0.1, 0.05]
# sphinx_gallery_end_ignore

# %%
# One call trains all models
# --------------------------
# All models share training rows, evaluation rows and bootstrap weights, so differences between two of them are known
# more precisely than either model by itself.

adult = sf.datasets.load_adult()
rows = adult.X.sample(N_ROWS, random_state=0).index
found = sf.frontier(
    sf.FairClassifier("demographic_parity", random_state=0),
    adult.X.loc[rows],
    adult.y[rows],
    sensitive_features=adult.sensitive[rows],
    tolerances=TOLERANCES,
)
found.to_frame()[
    ["tolerance", "unfairness", "low", "high", "accuracy", "cost", "cost_low", "cost_high"]
].round(3)

# %%
# The frontier
# ------------
# Every cross is the band of one model: how unfair it is from left to right, how accurate from bottom to top. The bands
# hold for all models together, so you may look first and choose afterwards.

MARGIN = 0.1
sf.plotting.FrontierDisplay(found).plot(margin=MARGIN)
plt.show()

# %%
# Choose a model
# --------------
# ``best`` returns the most accurate model whose whole band is within the margin, or None.

best = found.best(MARGIN)
print(
    "no model meets the margin with confidence"
    if best is None
    else f"tolerance of the best model: {best.tolerance}"
)

# %%
# The cost by itself
# ------------------
# The bands in accuracy overlap, but the difference from the free model is a paired comparison, and its interval is
# narrow.

fig, ax = plt.subplots(figsize=(7.0, 3.2), layout="constrained")
for i, point in enumerate(found.points[1:]):
    ax.plot([point.cost.low, point.cost.high], [i, i], color=BLUE, linewidth=2.0)
    ax.plot([point.cost.estimate], [i], "o", color=BLUE)
ax.axvline(0.0, color="0.25", linestyle="--")
ax.set_yticks(
    range(len(found.points) - 1),
    labels=[f"tolerance {point.tolerance:g}" for point in found.points[1:]],
)
ax.set(
    ylim=(len(found.points) - 1.5, -0.5),
    xlabel="accuracy minus that of the free model, 95 % intervals",
)
ax.set_title("Cost of each tolerance in accuracy", fontsize="medium")
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to conclude
# ----------------
# The plots show what each tolerance costs in accuracy, and which steps cost little. The ringed model is the one to take
# if the margin was agreed on beforehand.
#
# The frontier is that of linear models with these features: another kind of model may lie above it. Accuracy here means
# agreement with the recorded label, and it counts all mistakes equally. If mistakes have different costs in your case,
# look at them too before you choose.
