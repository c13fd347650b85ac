"""The charts of an audit, which is a dict here, see ``Audit.to_dict``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from surefair.audit.report import views
from surefair.audit.report.views import CoefficientRow, Found, GroupRate, MetricView, RateTable
from surefair.audit.result import find_interval
from surefair.inference.sources import SOURCES
from surefair.pages import svg, text
from surefair.pages.bands import Look, bands
from surefair.pages.forest import Mark, Row, Widths, forest, numbers_of
from surefair.pages.scale import Scale, make_scale

COEFFICIENTS = 30  # rows of coefficients that are drawn
GROUPS = 30  # groups in one chart, so that it fits on a printed page
NUMBERS = ("estimate", "low", "high")


def by_source(audit: Found, metric: MetricView) -> Markup:
    """Draw the unfairness of both models in one metric, with an interval for each source of uncertainty."""
    level = views.level(audit)
    rows = [
        Row(source, tuple(_by_source(model, i, metric, source, level) for i, model in enumerate(audit["models"])))
        for source in SOURCES
    ]
    axis = (
        "smallest ratio of rates (1 is parity)" if metric.ratio else "largest gap, in percentage points (0 is parity)"
    )
    return forest(
        rows, _metric_scale(metric, numbers_of(rows)), Widths(texts=110.0),
        description=f"{metric.full}: unfairness by source of uncertainty",
        axis=axis, head=f"[{level} interval]", margin=_margin(metric),
    )  # fmt: skip


def _by_source(model: Found, series: int, metric: MetricView, source: str, level: str) -> Mark:
    one = find_interval(model, metric.name, source)
    estimate, low, high = (metric.number(one[part]) for part in NUMBERS)
    tip = svg.tip(
        f"{model['name']} model, {source}", f"{metric.title}: {metric.with_unit(one['estimate'])}",
        text.span(low, high), level, one["reason"] and f"Some values are not defined: {one['reason']}.",
    )  # fmt: skip
    beside = estimate if one["estimate"] is None else f"{estimate} [{low}, {high}]"
    return Mark(series, one["estimate"], one["low"], one["high"], tip, beside)


def by_metric(audit: Found, model: Found, metrics: Sequence[MetricView]) -> Markup:
    """Draw the unfairness of one subject in several metrics, which are all differences, or all ratios."""
    level = views.level(audit)
    rows = [Row(metric.title, (_of_metric(model, metric, level),)) for metric in metrics]
    ratio = metrics[0].ratio
    return forest(
        rows, _metric_scale(metrics[0], numbers_of(rows)), Widths(labels=132.0, texts=112.0),
        description=f"{model['name']}: unfairness by metric",
        axis="smallest ratio (1 is parity)" if ratio else "largest gap, in percentage points (0 is parity)",
        head=f"[{level} interval]", margin=_margin(metrics[0]),
    )  # fmt: skip


def _of_metric(model: Found, metric: MetricView, level: str) -> Mark:
    one = find_interval(model, metric.name)
    estimate, low, high = (metric.number(one[part]) for part in NUMBERS)
    tip = svg.tip(metric.full, metric.with_unit(one["estimate"]), text.span(low, high), level, one["reason"])
    beside = estimate if one["estimate"] is None else f"{estimate} [{low}, {high}]"
    return Mark(0, one["estimate"], one["low"], one["high"], tip, beside)


def _margin(metric: MetricView) -> tuple[float, str] | None:
    return None if metric.margin is None else (metric.margin, f"margin {metric.number(metric.margin)}")


def _metric_scale(metric: MetricView, values: Iterable[float | None]) -> Scale:
    """Axis of unfairness: differences start at 0, ratios end at 1."""
    if metric.ratio:
        return make_scale([*values, 0.95, metric.margin], ceiling=1.0)
    return make_scale([*values, 0.01, metric.margin], floor=0.0, times=100.0)


def by_group(audit: Found, table: RateTable, models: Sequence[Found] | None = None) -> list[Markup]:
    """Draw one rate of all groups under some or all models, in several charts if there are many groups."""
    names = [f"{one['name']} model" if models is None else str(one["name"]) for one in models or audit["models"]]
    values = [one[part] for group in table.groups for one in group.found if one for part in ("rate", "low", "high")]
    scale = make_scale([*values, 0.01], floor=0.0, times=100.0)
    with_columns = len({group.column for group in table.groups}) > 1
    charts = []
    for first in range(0, len(table.groups), GROUPS):
        rows: list[Row] = []
        column: str | None = None
        for group in table.groups[first : first + GROUPS]:
            if group.column != column and (group.column or with_columns):
                rows.append(Row(group.column))
            column = group.column
            rows.append(_group_row(audit, table, group, names))
        charts.append(
            forest(
                rows, scale, Widths(labels=112.0, texts=48.0), description=f"{table.title} by group", axis="per cent",
                head="n",
            )
        )  # fmt: skip
    return charts


def _group_row(audit: Found, table: RateTable, group: GroupRate, names: Sequence[str]) -> Row:
    marks = []
    for i, (name, found) in enumerate(zip(names, group.found, strict=True)):
        one = found or {"rate": None, "low": None, "high": None, "n": 0}
        rate = text.points(one["rate"]) + ("%" if one["rate"] is not None else "")
        limits = text.span(text.points(one["low"]), text.points(one["high"]))
        count = f"n = {text.whole(one['n'])}" if one["n"] else "no evaluation row enters this rate"
        head = f"{group.group}, {name}"
        tip = svg.tip(head, f"{table.title}: {rate}", limits, views.level(audit), count)
        marks.append(Mark(i, one["rate"], one["low"], one["high"], tip, text.whole(one["n"])))
    return Row(group.group, tuple(marks))


def coefficients(audit: Found, rows: Sequence[CoefficientRow], width: int = svg.WIDE) -> Markup:
    """Draw the coefficients of both models."""
    drawn = []
    for row in rows:
        marks = []
        for i, (model, found) in enumerate(zip(audit["models"], row.found, strict=True)):
            one = found or dict.fromkeys(NUMBERS)
            estimate, low, high = (views.coefficient(one[part]) for part in NUMBERS)
            head = f"{row.feature}\n{model['name']} model"
            tip = svg.tip(head, estimate, text.span(low, high), views.level(audit))
            marks.append(Mark(i, one["estimate"], one["low"], one["high"], tip))
        drawn.append(Row(row.feature, tuple(marks)))
    wide = width == svg.WIDE
    return forest(
        drawn, make_scale([*numbers_of(drawn), 0.0], most=9 if wide else 6),
        Widths(chart=width, labels=260.0 if wide else 160.0),
        description="Coefficients of both models", axis="coefficient", zero=True,
    )  # fmt: skip


def _share(one: Found, series: int, head: str, unit: str, level: str) -> Mark:
    """Mark of a share, or of a difference between shares."""
    estimate, low, high = (text.points(one[part]) for part in NUMBERS)
    tip = svg.tip(head, f"{estimate}{unit}", text.span(low, high), level)
    return Mark(series, one["estimate"], one["low"], one["high"], tip, f"{estimate} [{low}, {high}]")


def accuracy(audit: Found) -> Markup:
    """Draw the share of correct decisions of both models."""
    level = views.level(audit)
    rows = []
    for i, model in enumerate(audit["models"]):
        mark = _share(model["accuracy"], i, f"{model['name']} model, accuracy", "%", level)
        rows.append(Row(model["name"], (mark,)))
    return forest(
        rows, make_scale(numbers_of(rows), times=100.0, most=5), Widths(labels=86.0, texts=112.0),
        description="Accuracy of both models", axis="accuracy, in per cent", head=f"[{level} interval]",
    )  # fmt: skip


def price(audit: Found) -> Markup:
    """Draw the accuracy that the constraint costs."""
    level = views.level(audit)
    mark = _share(audit["price"], 2, "price of fairness", " percentage points of accuracy", level)
    return forest(
        [Row("price", (mark,))], make_scale([*mark.numbers, 0.0], times=100.0, most=5),
        Widths(labels=86.0, texts=112.0), description="Price of fairness", axis="percentage points of accuracy",
        head=f"[{level} interval]", zero=True,
    )  # fmt: skip


def gain(audit: Found, comparison: Found, metric: MetricView) -> Markup:
    """Draw the unfairness of the constrained model minus that of the unconstrained one."""
    level = views.level(audit)
    estimate, low, high = (metric.number(comparison[part]) for part in NUMBERS)
    tip = svg.tip("constrained minus unconstrained", estimate, text.span(low, high), level)
    beside = f"{estimate} [{low}, {high}]"
    mark = Mark(2, comparison["estimate"], comparison["low"], comparison["high"], tip, beside)
    return forest(
        [Row("difference", (mark,))], make_scale([*mark.numbers, 0.0], times=1.0 if metric.ratio else 100.0, most=5),
        Widths(labels=70.0, texts=134.0), description=f"{metric.full}: difference of unfairness",
        axis="difference of log ratios" if metric.ratio else "percentage points (below 0, the constraint helps)",
        head=f"[{level} interval]", zero=True,
    )  # fmt: skip


def path(audit: Found, metric: MetricView, source: str, looks: Sequence[Sequence[Found]]) -> Markup:
    """Draw the unfairness of both models during training, with bands for the intervals."""
    values = [one[name] for part in looks for one in part for name in NUMBERS]
    series = [
        [_look(one, model["name"], metric, views.level(audit)) for one in part]
        for model, part in zip(audit["models"], looks, strict=True)
    ]
    return bands(
        series, _metric_scale(metric, values), description=f"{metric.full}: unfairness during training, {source}",
        axis="training rows (logarithmic)", unit="ratio" if metric.ratio else "percentage points",
        margin=_margin(metric),
    )  # fmt: skip


def _look(one: Found, model: str, metric: MetricView, level: str) -> Look:
    estimate, low, high = (one[part] for part in NUMBERS)
    head = f"{model} model after {text.whole(one['rows'])} rows"
    limits = text.span(metric.number(low), metric.number(high))
    tip = svg.tip(head, f"{metric.title}: {metric.with_unit(estimate)}", limits, level)
    return Look(int(one["rows"]), estimate, low, high, tip)
