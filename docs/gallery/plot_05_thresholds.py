"""
Every threshold of a score
==========================

A score gives other decisions at every threshold. At which thresholds is the gap between groups within a margin, and may
you choose the threshold after you have looked? Here a forest scores the defendants in the COMPAS data. We
look at false positives: people who were not charged again within two years, but whose score is above the threshold.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

import surefair as sf

N_TREES = 100

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_TREES = 10
# sphinx_gallery_end_ignore

# %%
# A score for every row
# ---------------------
# Cross-validation gives every defendant a score by a forest that was not trained on that defendant. Race is not a
# feature.

compas = sf.datasets.load_compas(race_as_feature=False)
forest = RandomForestClassifier(N_TREES, min_samples_leaf=20, random_state=0)
score = cross_val_predict(forest, compas.X, compas.y, cv=5, method="predict_proba")[:, 1]

# %%
# The curve
# ---------
# ``sf.threshold_curve`` measures the metric at every threshold. Its band holds for all thresholds together, so you may
# look at the curve first and choose a threshold afterwards.

curve = sf.threshold_curve(
    compas.y,
    score,
    sensitive_features=compas.sensitive,
    metric="false_positive_rate",
    thresholds=np.linspace(0.15, 0.85, 71),
)
MARGIN = 0.1
sf.plotting.ThresholdDisplay(curve).plot(margin=MARGIN)
plt.show()

# %%
# Verdicts
# --------
# The same as words, for each threshold:

verdicts = np.array(curve.verdicts(MARGIN))
for verdict in ("within margin", "not enough evidence", "violates margin"):
    print(f"{verdict}: {np.sum(verdicts == verdict)} of {len(verdicts)} thresholds")

# %%
# What to conclude
# ----------------
# A forest that never saw race has clearly different false-positive rates at the thresholds that one would use. At the
# ends of the scale the gap shrinks because nearly everybody is on the same side of the threshold: a gap of 0 is easy to
# have there, and worthless.
#
# The band is about this score and this population. Choosing the threshold by this curve alone ignores the other rates:
# with different base rates, equal false-positive rates and equal precision are usually not possible at once. And the
# label is a new charge, which is not the same as a new crime.
