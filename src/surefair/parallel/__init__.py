"""More than one worker: blocks of replicates over the same rows, or shards of rows.

Blocks of replicates are exact: the results are bit-identical. Shards of rows are statistical: the merged fit has the
same limit law as one pass over all rows, not the same bits. Rows that lie on a cluster stay there, and
``fit_partitions`` goes to them.
"""

from surefair.parallel.blocks import fit_replicates, fit_replicates_stream
from surefair.parallel.partitions import fit_partitions, fit_shards
from surefair.parallel.shards import shard_seed

__all__ = ["fit_partitions", "fit_replicates", "fit_replicates_stream", "fit_shards", "shard_seed"]
