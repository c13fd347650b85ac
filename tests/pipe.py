"""A stream that can be read only once, like a pipe."""

from __future__ import annotations

import io


class Pipe(io.BytesIO):
    """Bytes that cannot be sought."""

    def __init__(self, table):
        super().__init__(table if isinstance(table, bytes) else table.to_csv(index=False).encode())

    def seekable(self):
        return False

    def tell(self):
        raise io.UnsupportedOperation("tell")

    seek = tell
