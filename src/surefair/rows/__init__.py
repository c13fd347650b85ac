"""Rows: the one type for "some rows", and how arrays and data frames become rows.

``arrays`` and ``frames`` turn input of any kind into NumPy, ``columns``, ``groups`` and ``labels`` code them, and
``rows`` puts them together.
"""

from surefair.rows.arrays import (
    Column,
    FloatArray,
    IntArray,
    as_column,
    as_features,
    as_keys,
    as_weight,
    check_some_weight,
    is_sparse,
    pack_array,
    same_length,
    sum_in_order,
    unpack_array,
)
from surefair.rows.columns import CodedColumn, as_columns, with_intersection
from surefair.rows.distinct import Distinct
from surefair.rows.frames import library_of, make_frame
from surefair.rows.groups import Census, Groups, Levels, together
from surefair.rows.rows import Names, Rows

__all__ = [
    "Census",
    "CodedColumn",
    "Column",
    "Distinct",
    "FloatArray",
    "Groups",
    "IntArray",
    "Levels",
    "Names",
    "Rows",
    "as_column",
    "as_columns",
    "as_features",
    "as_keys",
    "as_weight",
    "check_some_weight",
    "is_sparse",
    "library_of",
    "make_frame",
    "pack_array",
    "same_length",
    "sum_in_order",
    "together",
    "unpack_array",
    "with_intersection",
]
