"""More than one worker: blocks of replicates, and shards of rows."""

from surefair.parallel.blocks import fit_partitions, fit_replicates, fit_replicates_stream, fit_shards, shard_seed

__all__ = ["fit_partitions", "fit_replicates", "fit_replicates_stream", "fit_shards", "shard_seed"]
