"""What the tests of several displays share."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest

from surefair import FairClassifier
from surefair.datasets import SyntheticDM


@pytest.fixture(autouse=True)
def no_window():
    plt.close("all")
    with plt.rc_context({"backend": "Agg"}):
        yield
    plt.close("all")


@pytest.fixture(scope="session")
def stream():
    return SyntheticDM(seed=0)


@pytest.fixture(scope="session")
def held_out(stream):
    """Evaluation rows."""
    return stream.rows(10**6, 300)


@pytest.fixture(scope="session")
def fitted(stream):
    train = stream.rows(0, 4_000)
    clf = FairClassifier("error_rate", tolerance=0.1, n_replicates=60, random_state=0)
    return clf.fit(train.X, train.y, sensitive_features=train.sensitive)


@pytest.fixture
def legend():
    return lambda ax: [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.fixture
def dots():
    """Function that lists the dots on axes, in drawing order.

    Each is (x, y, ends of its line, colour, whether it is filled).
    """

    def find(ax):
        lines = [line for line in ax.lines if len(line.get_xdata())]
        found = []
        for line, dot in zip(lines[::2], lines[1::2], strict=True):
            (x,) = dot.get_xdata()
            (y,) = dot.get_ydata()
            colour = dot.get_color()
            assert line.get_color() == colour
            assert list(line.get_ydata()) == [y, y]
            found.append((x, y, list(line.get_xdata()), colour, dot.get_markerfacecolor() == colour))
        return found

    return find
