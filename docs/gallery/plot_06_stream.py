"""
Watch a stream of decisions
===========================

You look at a model in use every day. After how many looks will an ordinary 95 % interval be wrong at least once, and
what do you do instead? Here both groups are selected at exactly the same rate, so every claim of a gap is a false
alarm. Then the gap jumps, and we see how soon the monitor notices.
"""

import matplotlib.pyplot as plt
import numpy as np

import surefair as sf

N_DAYS, PER_DAY, N_STREAMS = 60, 100, 200
BLUE, ORANGE = "#0072B2", "#D55E00"
rng = np.random.default_rng(2)

# sphinx_gallery_start_ignore
import os

if "SUREFAIR_GALLERY_SMALL" in os.environ:
    N_DAYS, N_STREAMS = 12, 20
# sphinx_gallery_end_ignore


def make_day(gap=0.0):
    """Groups and decisions of one day; the groups' selection rates are ``gap`` apart."""
    group = rng.choice(["f", "m"], size=PER_DAY)
    rate = np.where(group == "m", 0.4 + gap, 0.4)
    return group, (rng.random(PER_DAY) < rate).astype(int)


# %%
# How often repeated looks mislead
# --------------------------------
# For many streams without a gap, we compute after every day the usual interval for the difference of two proportions,
# and the anytime interval. We count the streams in which 0 was outside at some look so far. The anytime interval is
# the wider one, so we compute it only where 0 is outside the usual one.


def usual_interval(group, decision):
    """The 95 % interval of Wald for the difference of two proportions."""
    f, m = decision[group == "f"], decision[group == "m"]
    error = (f.var() / len(f) + m.var() / len(m)) ** 0.5
    return f.mean() - m.mean() - 1.96 * error, f.mean() - m.mean() + 1.96 * error


def join(days):
    """Groups and decisions of several days."""
    return (np.concatenate(part) for part in zip(*days, strict=True))


wrong = np.zeros((2, N_STREAMS, N_DAYS), bool)
for i in range(N_STREAMS):
    seen = []
    for day in range(N_DAYS):
        seen.append(make_day())
        group, decision = join(seen)
        low, high = usual_interval(group, decision)
        if not low <= 0.0 <= high:
            found = sf.fairness_interval(
                None, decision, sensitive_features=group, anytime=True
            )
            wrong[:, i, day] = True, not found.gap_low <= 0.0 <= found.gap_high
usual, anytime = np.logical_or.accumulate(wrong, axis=2).mean(axis=1)

# %%
# One stream in which the gap jumps
# ---------------------------------
# In this stream the gap is 0 in the first half and 0.25 in the second. The margin is 0.1. The detector raises an alarm
# once the recent rows show a gap beyond the margin.

monitor = sf.FairnessMonitor("demographic_parity", margin=0.1, run_length=1_000)
path, limits, seen = [], [], []
for day in range(N_DAYS):
    seen.append(make_day(gap=0.25 if day >= N_DAYS // 2 else 0.0))
    monitor.update(seen[-1][1], sensitive_features=seen[-1][0])
    path.append(monitor.interval())
    limits.append((path[-1].gap_low, path[-1].gap_high, *usual_interval(*join(seen))))
for alarm in monitor.alarms[:1]:
    print(f"alarm on day {alarm.update}, after {alarm.n:,} rows")

# %%
days = np.arange(1, N_DAYS + 1)
fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(7.0, 6.4), sharex=True, layout="constrained"
)
top.plot(days, usual, color=ORANGE, linestyle="--", label="usual intervals")
top.plot(days, anytime, color=BLUE, label="anytime intervals")
top.axhline(0.05, color="0.4", linestyle=":", label="5 %")
top.set(ylim=(0.0, None), ylabel="streams misled so far")
top.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
top.set_title("No gap at all: how often 0 was outside at some look", fontsize="medium")
top.legend(frameon=False)
low, high, usual_low, usual_high = np.transpose(limits)
bottom.fill_between(days, low, high, color=BLUE, alpha=0.25, label="anytime band")
bottom.plot(days, [one.gap for one in path], color=BLUE, label="gap so far")
bottom.plot(days, usual_low, color=ORANGE, linestyle="--", label="usual interval")
bottom.plot(days, usual_high, color=ORANGE, linestyle="--")
bottom.axvline(N_DAYS // 2 + 0.5, color="0.4", linestyle=":", label="the gap jumps")
for alarm in monitor.alarms[:1]:
    bottom.axvline(alarm.update, color="black", label=f"alarm on day {alarm.update}")
bottom.set(xlabel="day", ylabel="gap, f minus m", xlim=(1, N_DAYS), ylim=(-0.3, 0.2))
bottom.set_title("The gap jumps: all rows so far, and the alarm", fontsize="medium")
bottom.legend(frameon=False, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.2))
for ax in (top, bottom):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What to conclude
# ----------------
# The more often you look, the more often the usual interval misleads you; the anytime band keeps its promise over all
# looks. It is wider, which is the price. After a jump, the detector answers first, because the band is about all rows
# since the beginning.
#
# The band is exact for rates that stay the same. Once they have changed, read it as a summary of the past, and rely on
# the alarm. Updates are days here, so ``run_length`` counts days.
