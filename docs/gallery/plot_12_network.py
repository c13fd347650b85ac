"""
The last layer of a network, under a constraint
===============================================

Your model is a neural network, and you do not want to train it again. Can you still constrain it? Yes: keep its body as
it is, and learn the last layer with ``FairClassifier``. Here scikit-learn's ``MLPClassifier`` provides the body, and
the data are Adult.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

import surefair as sf

N_BODY, N_TRAIN = 12_000, 16_000
TOLERANCES = [0.12, 0.08, 0.04]
BLUE, ORANGE = "#0072B2", "#D55E00"

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_BODY, N_TRAIN, TOLERANCES = 2_000, 4_000, [0.1]
# sphinx_gallery_end_ignore

# %%
# The body
# --------
# The body is trained on separate rows. If the last layer learnt from the same rows, its intervals would be too
# narrow. ``early_stopping`` ends the training in time.

adult = sf.datasets.load_adult()
X, y, sex = adult.X.to_numpy(), adult.y, adult.sensitive
X_body, X, y_body, y, _, sex = train_test_split(
    X, y, sex, train_size=N_BODY, random_state=0
)
X_train, X_test, y_train, y_test, sex_train, sex_test = train_test_split(
    X, y, sex, train_size=N_TRAIN, random_state=0
)
network = MLPClassifier((32, 16), early_stopping=True, random_state=0).fit(X_body, y_body)


def hidden(X):
    """Return the activations of the last hidden layer."""
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        X = np.maximum(X @ weights + bias, 0.0)
    return X


fires = hidden(X_body).std(axis=0) > 0.01  # some units may never fire
train, test = hidden(X_train)[:, fires], hidden(X_test)[:, fires]
print(f"the last layer has {train.shape[1]} features")

# %%
# The last layer
# --------------
# We learn it again without a constraint, and with several tolerances.

models = {"free": sf.FairClassifier(None, random_state=0).fit(train, y_train)}
for tolerance in TOLERANCES:
    clf = sf.FairClassifier("demographic_parity", tolerance=tolerance, random_state=0)
    clf.fit(train, y_train, sensitive_features=sex_train)
    models[f"tolerance {tolerance:g}"] = clf

# %%
# Unfairness and accuracy
# -----------------------
# The network itself comes as decisions, so its interval is for this very network.

settings = {"sensitive_features": sex_test, "metric": "demographic_parity"}
found = {
    "network as it is": sf.fairness_interval(None, network.predict(X_test), **settings)
}
accuracy = [network.score(X_test, y_test)]
for name, clf in models.items():
    found[name] = clf.fairness_interval(test, y_test, **settings)
    accuracy.append(clf.score(test, y_test))

fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.2), layout="constrained")
for i, one in enumerate(found.values()):
    colour = ORANGE if i == 0 else BLUE
    left.plot([one.low, one.high], [i, i], color=colour, linewidth=2.0)
    left.plot([one.estimate], [i], "s" if i == 0 else "o", color=colour)
    right.plot([accuracy[i]], [i], "s" if i == 0 else "o", color=colour)
left.set(xlim=(0.0, None), xlabel="unfairness, with 95 % intervals")
right.set(xlabel="accuracy")
right.locator_params(axis="x", nbins=4)
fig.suptitle("One body, several last layers", fontsize="medium")
for ax, labels in ((left, found), (right, [])):
    ax.set_yticks(range(len(found)), labels=labels or [""] * len(found))
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color="0.9")
plt.show()

# %%
# What to conclude
# ----------------
# The last layer alone is enough to move the gap, because the hidden layer keeps most of what the network knows. The
# left panel shows what is certain about the gap, the right one what it costs.
#
# The intervals of the last layers take the body as given. They leave out how the body would differ had it been trained
# on other rows or from another seed. To cover that, refit the whole network:
# ``sf.BootstrapClassifier(MLPClassifier(...))``.
