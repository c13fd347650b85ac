"""A monitor in Spark Structured Streaming equals one that sees all rows at once."""

import numpy as np
import pandas as pd

import surefair as sf


def test_structured_streaming_equals_the_batch_result(spark, tmp_path):
    rng = np.random.default_rng(0)
    parts, source = [], tmp_path / "in"
    source.mkdir()
    for i in range(4):
        sex = rng.choice(["f", "m"], size=2500)
        rows = pd.DataFrame({"approved": (rng.random(2500) < 0.3 + 0.2 * (sex == "m")).astype("int32"), "sex": sex})
        rows.to_parquet(source / f"{i}.parquet")
        parts.append(rows)

    monitor = sf.FairnessMonitor(metric="demographic_parity", margin=0.1, update_rows=1000)
    batches = []

    def watch(frame, number):
        """Take the rows of a micro-batch; its number makes a batch that Spark repeats count once."""
        if number not in batches:
            monitor.update_arrow(frame.select("approved", "sex").toArrow(), decision="approved", sensitive="sex")
            batches.append(number)

    stream = spark.readStream.schema("approved INT, sex STRING").option("maxFilesPerTrigger", 1).parquet(str(source))
    query = stream.writeStream.foreachBatch(watch).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination()

    whole = pd.concat(parts)
    found = sf.fairness_interval(None, whole["approved"], sensitive_features=whole[["sex"]], anytime=True, pos_label=1)
    assert len(batches) == 4
    assert monitor.n == 10_000
    assert monitor.interval().gap == found.gap
    assert abs(monitor.interval().gap_high - found.gap_high) < 0.01  # files may come in another order
    assert monitor.verdict == "violates margin"
