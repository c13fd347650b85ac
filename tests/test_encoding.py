from __future__ import annotations

import numpy as np
import pytest

from surefair.encoding import Levels


@pytest.mark.parametrize(
    ("column", "levels", "codes"),
    [
        (np.array(["b", "a", "b"]), ["a", "b"], [1, 0, 1]),
        (np.array([1, -1, 1]), [-1, 1], [1, 0, 1]),
        (np.array([0.5, 2.0, 0.5]), [0.5, 2.0], [0, 1, 0]),
        (np.array([True, False]), [False, True], [1, 0]),
        (np.array(["x", "y"], dtype=object), ["x", "y"], [0, 1]),
        (np.array([10, 2, 33]), [2, 10, 33], [1, 0, 2]),
    ],
    ids=["strings", "integers", "floats", "booleans", "objects", "three"],
)
def test_a_value_has_its_place_in_sorted_order_as_code(column, levels, codes):
    found = Levels.of(column, "label")
    assert found.values.tolist() == levels
    assert found.codes(column).tolist() == codes
    assert found.codes(column).dtype == np.int64


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_codes_lead_back_to_the_values(dtype):
    column = np.array(["no", "yes", "maybe", "yes"], dtype=dtype)
    levels = Levels.of(column, "label")
    assert levels.values[levels.codes(column)].tolist() == column.tolist()


@pytest.mark.parametrize("column", [np.array(["a"]), np.array([], dtype=np.str_)], ids=["some", "none"])
def test_a_column_need_not_show_every_level(column):
    levels = Levels.of(np.array(["a", "b"]), "group")
    assert levels.codes(column).tolist() == [0] * len(column)


def test_numbers_are_known_whatever_their_type():
    levels = Levels.of(np.array([0, 1]), "label")
    assert levels.codes(np.array([True, False])).tolist() == [1, 0]
    assert levels.codes(np.array([1.0, 0.0])).tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [np.str_, object])
def test_a_value_never_declared_is_refused_by_name(dtype):
    levels = Levels.of(np.array(["a", "b"], dtype=dtype), "group")
    with pytest.raises(ValueError, match=r"group column contains 'c', never declared .* groups are 'a', 'b'"):
        levels.codes(np.array(["a", "c"], dtype=dtype))


def test_a_long_list_of_strangers_is_cut_short():
    with pytest.raises(ValueError, match=r"9\D+and 20 more"):
        Levels.of(np.array([-1, -2]), "label").codes(np.arange(30))


def test_types_that_cannot_be_sorted_are_refused():
    with pytest.raises(ValueError, match=r"mixes types .*int, str"):
        Levels.of(np.array([1, "a"], dtype=object), "label")


def test_two_levels_where_two_are_needed():
    assert Levels.of(np.array([3, 4]), "label").two().values.tolist() == [3, 4]
    for values in ([3], [3, 4, 5]):
        with pytest.raises(ValueError, match=f"Exactly two labels are needed; received {len(values)}: 3"):
            Levels.of(np.array(values), "label").two()
