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

N_BODY, N_TRAIN, MAX_ITER = 12_000, 16_000, 25
TOLERANCES = [0.12, 0.08, 0.04]

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_BODY, N_TRAIN, MAX_ITER, TOLERANCES = 2_000, 4_000, 10, [0.1]
# sphinx_gallery_end_ignore

# %%
# The body
# --------
# The body is trained on rows of its own. If the last layer learnt from the same rows, its intervals would be too
# narrow. ``early_stopping`` ends the training in time.

adult = sf.datasets.load_adult()
X, y, sex = adult.X.to_numpy(), adult.y, adult.sensitive
X_body, X, y_body, y, _, sex = train_test_split(X, y, sex, train_size=N_BODY, random_state=0)
X_train, X_test, y_train, y_test, sex_train, sex_test = train_test_split(X, y, sex, train_size=N_TRAIN, random_state=0)
network = MLPClassifier((32, 16), max_iter=MAX_ITER, early_stopping=True, n_iter_no_change=30, random_state=0)


def hidden(X):
    """Return the activations of the last hidden layer."""
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        X = np.maximum(X @ weights + bias, 0.0)
    return X


# sphinx_gallery_start_ignore
import warnings

warnings.filterwarnings("ignore", message="Stochastic Optimizer: Maximum iterations")
# sphinx_gallery_end_ignore
network.fit(X_body, y_body)
features, features_test = hidden(X_train), hidden(X_test)
used = features.std(axis=0) > 0.01  # some units never fire
print(f"{used.sum()} features, accuracy of the network {network.score(X_test, y_test):.3f}")

# %%
# The last layer
# --------------
# We learn it again without a constraint, and with several tolerances.

models = {"free": sf.FairClassifier(None, random_state=0).fit(features[:, used], y_train)}
for tolerance in TOLERANCES:
    clf = sf.FairClassifier("demographic_parity", tolerance=tolerance, random_state=0)
    models[f"tolerance {tolerance:g}"] = clf.fit(features[:, used], y_train, sensitive_features=sex_train)

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(8.0, 3.2), sharey=True, layout="constrained")
found = {
    "network as it is": sf.fairness_interval(y_test, network.predict(X_test), sensitive_features=sex_test),
    **{
        name: clf.fairness_interval(
            features_test[:, used], y_test, sensitive_features=sex_test, metric="demographic_parity"
        )
        for name, clf in models.items()
    },
}
accuracy = [network.score(X_test, y_test), *(clf.score(features_test[:, used], y_test) for clf in models.values())]
for i, one in enumerate(found.values()):
    colour = "#D55E00" if i == 0 else "#0072B2"
    left.plot([one.low, one.high], [i, i], color=colour, linewidth=2.0)
    left.plot([one.estimate], [i], "s" if i == 0 else "o", color=colour)
    right.plot([accuracy[i]], [i], "s" if i == 0 else "o", color=colour)
left.set_yticks(range(len(found)), labels=found)
left.set(ylim=(len(found) - 0.5, -0.5), xlim=(0.0, None), xlabel="unfairness, with 95 % intervals")
right.set(xlabel="accuracy")
right.locator_params(axis="x", nbins=4)
fig.suptitle("One body, several last layers", fontsize="medium")
for ax in (left, right):
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
