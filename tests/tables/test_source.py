"""Files, folders, streams and frames give the same rows in tables of the same size; errors name what cannot be read."""

import bz2
import gzip
import hashlib
import io
import subprocess
import sys

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from surefair.tables import csv as delimited
from surefair.tables import files
from surefair.tables.bad_rows import BadRows, TooManyBadRows
from surefair.tables.csv import MARKERS
from surefair.tables.files import DataFile
from surefair.tables.source import open_source

N = 103
COLUMNS = {"id": [str(i) for i in range(N)], "sex": ["f" if i % 3 else "m" for i in range(N)]}
COLUMNS["note"] = [None if i % 10 == 0 else f'say "{i}",\nthen {i}' if i % 10 == 1 else f"é{i}" for i in range(N)]
TABLE = pa.table(COLUMNS)


def csv_bytes(table=TABLE, header=True):
    return table.to_pandas().to_csv(index=False, header=header, lineterminator="\n").encode()


def opened(data, limit=0, **options):
    return open_source(data, bad=BadRows(limit), **options)


def rows(source, size=40, **options):
    return [row for table in source.tables(size, **options) for row in table.to_pylist()]


def folder_of(folder, suffix, write):
    folder.mkdir()
    for number, (low, high) in enumerate([(0, 7), (7, 8), (8, 60), (60, N)]):
        write(TABLE.slice(low, high - low), folder / f"part-{number}{suffix}")
    (folder / "_SUCCESS").write_text("done")
    (folder / ".part-0.crc").write_text("1")
    return folder


def write_csv(table, path):
    path.write_bytes(csv_bytes(table))


def write_feather(table, path):
    feather.write_feather(table, str(path), chunksize=11)


def write_parquet(table, path):
    pq.write_table(table, path, row_group_size=7)


def saved(write, path):
    write(TABLE, path)
    return path


FORMS = {
    "csv": lambda d: saved(write_csv, d / "rows.csv"),
    "gz": lambda d: saved(lambda t, p: p.write_bytes(gzip.compress(csv_bytes(t))), d / "rows.csv.gz"),
    "bz2": lambda d: saved(lambda t, p: p.write_bytes(bz2.compress(csv_bytes(t))), d / "rows.CSV.BZ2"),
    "tsv": lambda d: saved(lambda t, p: t.to_pandas().to_csv(p, sep="\t", index=False), d / "rows.tsv"),
    "parquet": lambda d: saved(write_parquet, d / "rows.parquet"),
    "feather": lambda d: saved(write_feather, d / "rows.feather"),
    "folder of csv": lambda d: folder_of(d / "many", ".csv", write_csv),
    "folder of parquet": lambda d: folder_of(d / "many", ".parquet", write_parquet),
    "folder of arrow": lambda d: folder_of(d / "many", ".arrow", write_feather),
    "file object": lambda d: io.BytesIO(csv_bytes()),
    "pandas": lambda d: TABLE.to_pandas().set_index(pd.Index(range(5, 5 + N), name="unused")),
    "polars": lambda d: pl.from_arrow(TABLE),
    "pyarrow": lambda d: pa.concat_tables([TABLE.slice(0, 9), TABLE.slice(9)]),
}


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(data)
    return sink.getvalue().to_pybytes()


FORMS["zst"] = lambda d: saved(lambda t, p: p.write_bytes(zstd(csv_bytes(t))), d / "rows.csv.zst")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 7, 40, 51, 103, 500])
def test_tables_do_not_depend_on_the_form_of_the_data(tmp_path, monkeypatch, form, size):
    monkeypatch.setattr(files, "BATCH_ROWS", 13)
    monkeypatch.setattr(delimited, "_BLOCK", 128)
    source = opened(FORMS[form](tmp_path))
    tables = list(source.tables(size))
    assert [len(table) for table in tables] == [len(TABLE.slice(low, size)) for low in range(0, N, size)]
    assert [row for table in tables for row in table.to_pylist()] == TABLE.to_pylist()
    assert all(column.num_chunks == 1 for table in tables for column in table.columns)
    assert source.n_rows == N
    assert source.schema.names == TABLE.column_names
    assert all(table.schema.names == TABLE.column_names for table in tables)


@pytest.mark.parametrize("form", FORMS)
def test_tables_have_the_requested_columns_in_the_requested_order(tmp_path, form):
    (table,) = opened(FORMS[form](tmp_path)).tables(1000, columns=["note", "id"])
    assert table.to_pylist() == TABLE.select(["note", "id"]).to_pylist()


@pytest.mark.parametrize("form", FORMS)
def test_tables_have_the_schema_of_the_source(tmp_path, form):
    source = opened(FORMS[form](tmp_path))
    assert next(source.tables(5)).schema.equals(source.schema, check_metadata=True)


@pytest.mark.parametrize("form", [form for form in FORMS if form not in ("file object", "pandas", "polars", "pyarrow")])
def test_files_have_the_checksums_and_sizes_of_their_bytes(tmp_path, form):
    path = FORMS[form](tmp_path)
    paths = [path] if path.is_file() else sorted(path.glob("part*"))
    contents = {file.name: file.read_bytes() for file in paths}
    source = opened(path)
    assert source.files() == [DataFile(n, len(b), hashlib.sha256(b).hexdigest()) for n, b in contents.items()]
    assert source.n_bytes == sum(map(len, contents.values()))
    assert source.name == path.name
    assert source.kind == {"c": "csv", "g": "csv", "b": "csv", "z": "csv", "t": "csv", "p": "parquet"}.get(
        form.removeprefix("folder of ")[0], "arrow"
    )


@pytest.mark.parametrize("form", ["csv", "gz", "folder of csv"])
def test_position_rises_from_0_to_1(tmp_path, monkeypatch, form):
    monkeypatch.setattr(delimited, "_BLOCK", 128)
    source = opened(FORMS[form](tmp_path))
    assert source.position() == 0.0
    seen = [source.position() for _ in source.tables(10)]
    assert seen == sorted(seen)
    assert source.position() == 1.0


def test_standard_input_is_hashed_while_it_is_read_and_can_be_read_once(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(csv_bytes())

    monkeypatch.setattr(sys, "stdin", Stdin)
    source = opened("-")
    assert (source.name, source.kind, source.n_rows, source.n_bytes) == ("standard input", "csv", None, None)
    assert rows(source) == TABLE.to_pylist()
    data = csv_bytes()
    assert source.files() == [DataFile("standard input", len(data), hashlib.sha256(data).hexdigest())]
    assert source.position() is None
    with pytest.raises(ValueError, match="standard input can be read only once"):
        rows(source)


def test_a_stream_that_returns_few_bytes_at_a_time_gives_the_same_rows():
    class Slow(io.BytesIO):
        def read(self, n=-1):
            return super().read(min(n, 3))

    assert rows(opened(Slow(csv_bytes()))) == TABLE.to_pylist()


def test_a_frame_has_the_checksum_of_its_arrow_stream():
    frame = TABLE.to_pandas()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, opened(frame).schema) as writer:
        writer.write_table(pa.Table.from_pandas(frame).replace_schema_metadata(None))
    data = sink.getvalue().to_pybytes()
    assert opened(frame).files() == [DataFile("pandas data frame", len(data), hashlib.sha256(data).hexdigest())]
    assert opened(pl.from_arrow(TABLE)).name == "polars data frame"
    pieces = pa.concat_tables([TABLE.slice(0, 50), TABLE.slice(50)])
    assert opened(pieces).files() == opened(TABLE).files()


def test_a_source_can_be_read_again_after_an_early_stop(tmp_path):
    source = opened(FORMS["csv"](tmp_path))
    next(source.tables(5))
    assert rows(source) == rows(source) == TABLE.to_pylist()


def test_subfolders_add_columns(tmp_path):
    for suffix, write in [(".csv", write_csv), (".parquet", write_parquet)]:
        for number, sex in enumerate(["f", "m%2Fx"]):
            folder = tmp_path / suffix / f"group={sex}"
            folder.mkdir(parents=True)
            write(pa.table({"id": [str(number)]}), folder / f"rows{suffix}")
        source = opened(tmp_path / suffix)
        assert rows(source) == [{"id": "0", "group": "f"}, {"id": "1", "group": "m/x"}]
        assert rows(source, columns=["group"]) == [{"group": "f"}, {"group": "m/x"}]


def test_text_is_trimmed_and_markers_of_missing_values_become_null():
    lines = "".join(f" {marker} ,\tx y \n" for marker in (*MARKERS, '""'.strip('"')))
    found = rows(opened(io.BytesIO(f"\ufeff a , b\n{lines}".encode())))
    assert found == [{"a": None, "b": "x y"}] * (len(MARKERS) + 1)


def test_the_raw_form_of_adult_can_be_read():
    names = ["age", "work", "income"]
    raw = b"39, State-gov, <=50K\n50, ?, >50K\n\n"
    assert rows(opened(io.BytesIO(raw), names=names)) == [
        {"age": "39", "work": "State-gov", "income": "<=50K"},
        {"age": "50", "work": None, "income": ">50K"},
    ]
    bad = BadRows(1)
    assert len(rows(open_source(io.BytesIO(b"|1x3 Cross validator\n" + raw), names=names, bad=bad))) == 2
    assert bad.to_dict() == [{"reason": "too few fields", "count": 1, "first": "line 1: '|1x3 Cross validator'"}]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "cp1252", "utf8"])
def test_rows_do_not_depend_on_the_encoding(tmp_path, encoding):
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_bytes().decode().encode(encoding))
    assert rows(opened(path, encoding=encoding)) == TABLE.to_pylist()


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
def test_rows_do_not_depend_on_the_line_ends(newline):
    assert rows(opened(io.BytesIO(b"a,b\n\n1,2\n3,4".replace(b"\n", newline)))) == [
        {"a": "1", "b": "2"},
        {"a": "3", "b": "4"},
    ]


@pytest.mark.parametrize("block", [64, 100, 1000, 1 << 20])
def test_counts_of_bad_rows_do_not_depend_on_the_blocks(monkeypatch, block):
    monkeypatch.setattr(delimited, "_BLOCK", block)
    lines = ["9,9,9" if i % 50 == 49 else "7" if i % 20 == 3 or i < 45 else f"{i},x" for i in range(400)]
    bad = BadRows(1000)
    found = rows(open_source(io.BytesIO("\n".join(["a,b", *lines]).encode()), bad=bad), size=30)
    assert [row["a"] for row in found] == [line[:-2] for line in lines if line.endswith(",x")]
    few = sum(line == "7" for line in lines)
    assert bad.to_dict() == [
        {"reason": "too few fields", "count": few, "first": "line 2: '7'"},
        {"reason": "too many fields", "count": 8, "first": "line 51: '9,9,9'"},
    ]
    assert bad.total == few + 8


def test_a_long_bad_row_is_shortened_and_its_file_named(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    (tmp_path / "b.csv").write_text("a,b\n1,2\n" + "x" * 500 + "\n")
    bad = BadRows(1)
    rows(open_source(tmp_path, bad=bad))
    assert bad.to_dict()[0]["first"] == f"b.csv, line 3: '{'x' * 60}…'"


def test_reading_stops_beyond_the_limit_of_bad_rows():
    data = b"a,b\n1\n2,3\n4,5,6\n7\n"
    message = (
        r"2 rows cannot be used, and the limit is 1\. too few fields: 1, the first in line 2: '1'; too many fields: 1, "
        r"the first in line 4: '4,5,6'\. Fix the data or raise max_bad_rows \(--max-bad-rows\)\."
    )
    with pytest.raises(TooManyBadRows, match=message):
        rows(opened(io.BytesIO(data), limit=1))


def test_bad_rows_keep_the_first_place_for_each_reason():
    bad = BadRows(5)
    bad.add("no label", 3, "row 4")
    bad.add("no label", 0, "row 9")
    bad.add("bad weight", 0, "row 9")
    assert bad.to_dict() == [{"reason": "no label", "count": 3, "first": "row 4"}]
    with pytest.raises(TooManyBadRows, match="6 rows cannot be used"):
        bad.add("no label", 3, "row 8")


def test_line_numbers_are_those_of_the_file():
    bad = BadRows(2)
    data = b'a,"b\nc"\n  \n1,"2\n\n3"\n\n71,x\n7\n \n'
    assert len(rows(open_source(io.BytesIO(data), bad=bad))) == 2
    assert bad.to_dict() == [{"reason": "too few fields", "count": 1, "first": "line 9: '7'"}]


@pytest.mark.parametrize("header", ["a,a,a", "a, a", "a,a,a.1", "a.1,a,a", "a,a,a.1,a.1", "b,a,b,a"])
def test_names_that_a_header_repeats_get_the_same_numbers_as_in_pandas(header):
    data = f"{header}\n{header}\n".encode()
    source = opened(io.BytesIO(data))
    assert source.schema.names == list(pd.read_csv(io.BytesIO(data), skipinitialspace=True).columns)
    assert [list(row.values()) for row in rows(source)] == [header.replace(" ", "").split(",")]


def test_repeated_names_outside_a_header_are_an_error(tmp_path):
    twice = pa.table([["1"], ["2"]], names=["a", "a"])
    pq.write_table(twice, tmp_path / "rows.parquet")
    for data in (tmp_path / "rows.parquet", twice):
        with pytest.raises(ValueError, match=r"two columns 'a'|Column names must be unique"):
            opened(data)


@pytest.mark.parametrize("block", [24, 61, 1 << 20])
@pytest.mark.parametrize("delimiter", [",", "|", "^"])
def test_a_quote_after_a_space_begins_a_quoted_field(monkeypatch, block, delimiter):
    monkeypatch.setattr(delimited, "_BLOCK", block)
    values = ["a, b", 'say "x", "y"', "two\nlines | ^", ' "inside"', "1"] * 9
    fields = ('"' + value.replace('"', '""') + '"' for value in values)
    data = f' "k, 1"{delimiter}  "v"\n' + "".join(f"{i}{delimiter} {field} \n" for i, field in enumerate(fields))
    source = opened(io.BytesIO(data.encode()), delimiter=delimiter)
    assert rows(source) == [{"k, 1": str(i), "v": value.strip()} for i, value in enumerate(values)]


def test_spaces_are_kept_if_they_are_the_delimiter():
    found = rows(opened(io.BytesIO(b'a b c\n1  "x y"\n'), delimiter=" "))
    assert found == [{"a": "1", "b": None, "c": "x y"}]


def test_line_numbers_do_not_depend_on_the_line_ends():
    for newline in ("\n", "\r\n", "\r"):
        bad = BadRows(1)
        rows(open_source(io.BytesIO('a,b\n1, "2\n3"\n4\n5,6\n'.replace("\n", newline).encode()), bad=bad))
        assert bad.to_dict()[0]["first"] == "line 4: '4'"


@pytest.mark.parametrize("block", [16, 61, 1 << 20])
def test_quotes_inside_unquoted_fields_are_text(monkeypatch, block):
    monkeypatch.setattr(delimited, "_BLOCK", block)
    data = "a,b\n" + "".join(f'{i}" pipe,{i}\n' if i % 7 == 0 else f'{i},"x\n{i}"\n' for i in range(50))
    found = rows(opened(io.BytesIO(data.encode())))
    assert [row["a"] for row in found] == [f'{i}" pipe' if i % 7 == 0 else str(i) for i in range(50)]


def test_a_program_can_exit_while_a_file_is_half_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n3\n" * 2**20)
    code = f"""
from surefair.tables.bad_rows import BadRows
from surefair.tables.source import open_source
tables = open_source({str(path)!r}, bad=BadRows(10**9)).tables(10)
next(tables)
"""
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stderr == b""


def test_a_last_line_that_is_cut_short_is_a_bad_row():
    bad = BadRows(1)
    assert len(rows(open_source(io.BytesIO(b"a,b\n1,2\n3"), bad=bad))) == 1
    assert bad.to_dict() == [{"reason": "too few fields", "count": 1, "first": "line 3: '3'"}]


CUT = gzip.compress(bytes(range(256)) * 400)
BROKEN_CSV = {
    "open quote in the last field": (b'a,b\n1,2\n3,"4\n5,6\n', r"quoted field that begins in line 3 and does not end"),
    "open quote in the first field": (b'a,b\n1,2\n"3,4\n5,6\n', r"quoted field that begins in line 3 and does not end"),
    "open quote in one column": (b'a\n1\n"3\n', r"quoted field that begins in line 3 and does not end"),
    "open quote in the header": (b'a,"b\n1,2\n', r"columns but no rows"),
    "open quote in a long file": (b'a,b\n1,2\n3,"4\n' + b"5,6\n" * 2**21, "begins in line .* and does not end"),
    "open quote in a long header": (b'a,"b\n' + b"5,6\n" * 2**16, "begins in line .* and does not end"),
    "empty": (b"", "rows.csv is empty"),
    "only white space": (b"\n  \n", "rows.csv is empty"),
    "only a header": (b"a,b\n", "rows.csv has columns but no rows"),
    "only bad rows": (b"a,b\n1\n", "No row of rows.csv can be used"),
    "not UTF-8": (b"a,b\n1,2\n\xe9,4\n", r"rows.csv is not in the encoding 'utf-8': byte 0xe9 in line 3. .*latin-1"),
    "cut inside a character": (b"a,b\n1,2\n3,\xc3", r"not in the encoding 'utf-8': byte 0xc3 in line 3"),
    "semicolons": (b"a;b\n1;2\n", r"Pass delimiter=';' \(--delimiter\)"),
    "tabs": (b"a\tb\n1\t2\n", r"Pass delimiter='\\t' \(--delimiter\)"),
    "a column without a name": (b"a, ,b\n1,2,3\n", "Column 2 of rows.csv has no name"),
    "Parquet": (b"PAR1\x00\xff", "rows.csv holds Parquet data, but CSV is expected"),
    "gzip": (CUT, "rows.csv holds gzip data"),
}


@pytest.mark.parametrize("case", BROKEN_CSV)
def test_broken_csv_is_an_error_that_names_the_file(tmp_path, case):
    data, message = BROKEN_CSV[case]
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message) as error:
        rows(opened(path, limit=3))
    assert str(tmp_path) not in str(error.value)
    assert not isinstance(error.value, pa.ArrowException | UnicodeError)


@pytest.mark.parametrize("encoding_error_column", ["a", "b"])
def test_the_encoding_is_checked_in_every_column(encoding_error_column):
    with pytest.raises(ValueError, match="standard input is not in the encoding"):
        rows(opened(io.BytesIO(b"a,b\n1,\xe9\n")), columns=[encoding_error_column])


OPTIONS = [
    ({"names": ["a", "b"]}, r"names has 2 column names, but the first row of standard input has 3 fields: '1,2,3'"),
    ({"names": ["a", "b", "a"]}, "two columns 'a'"),
    ({"names": ["a", "b", " "]}, "Column 3 of standard input has no name"),
    ({"encoding": "utf-7b"}, "Unknown encoding: 'utf-7b'"),
    ({"encoding": "rot13"}, "Unknown encoding: 'rot13'"),
    ({"delimiter": "::"}, "delimiter must be one ASCII character"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_options_that_do_not_fit_the_data_are_an_error(options, message):
    with pytest.raises(ValueError, match=message):
        opened(io.BytesIO(b"1,2,3\n4,5,6\n"), **options)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
@pytest.mark.parametrize("cut", [True, False])
def test_a_damaged_compressed_file_is_named(tmp_path, suffix, cut):
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}[suffix]
    path = tmp_path / f"rows.csv{suffix}"
    path.write_bytes(pack(csv_bytes())[:-20] if cut else csv_bytes())
    with pytest.raises(ValueError, match=rf"rows.csv{suffix} is not a \w+ file, or is cut short"):
        rows(opened(path))


@pytest.mark.parametrize("form", ["parquet", "feather"])
@pytest.mark.parametrize("damage", ["cut", "other", "tiny", "inside"])
def test_a_damaged_parquet_or_arrow_file_is_named(tmp_path, form, damage):
    path = FORMS[form](tmp_path)
    data = path.read_bytes()
    inside = data[:8] + bytes(byte ^ 0xFF for byte in data[8:600]) + data[600:]
    path.write_bytes({"cut": data[: len(data) // 2], "other": csv_bytes(), "tiny": b"x", "inside": inside}[damage])
    kind = "Parquet" if form == "parquet" else "Arrow"
    with pytest.raises(ValueError, match=rf"{path.name} is not a {kind} file, or is cut short") as error:
        rows(opened(path))
    assert str(tmp_path) not in str(error.value)


def test_a_missing_file_is_named_with_a_suggestion(tmp_path):
    FORMS["csv"](tmp_path)
    with pytest.raises(FileNotFoundError, match=r"There is no file .*row\.csv'\. Did you mean 'rows\.csv'\?"):
        opened(tmp_path / "row.csv")
    with pytest.raises(FileNotFoundError, match="Check its name and folder"):
        opened(tmp_path / "nowhere" / "row.csv")


@pytest.mark.parametrize("form", ["csv", "gz", "parquet", "feather", "folder of csv", "folder of parquet"])
def test_a_file_without_permission_is_named(tmp_path, monkeypatch, form):
    path = FORMS[form](tmp_path)
    closed = path if path.is_file() else max(path.glob("part*"))

    def refuse(file, *options):
        if file == closed:
            raise PermissionError(13, "Permission denied", str(file))
        return opens(file, *options)

    opens = files.open_regular
    monkeypatch.setattr(files, "open_regular", refuse)  # the superuser can read a file without permission
    with pytest.raises(PermissionError, match=rf"No permission to read .*{closed.name}'\. Ask its owner"):
        opened(path)


@pytest.mark.parametrize("name", ["rows.xlsx", "rows", "rows.parquet.gz", "rows.gz", ".csv"])
def test_an_unknown_suffix_is_an_error(tmp_path, name):
    (tmp_path / name).write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=rf"The suffix of '{name}' does not say .*\.csv, .*\.parquet, .*\.csv\.gz"):
        opened(tmp_path / name)


def test_an_empty_file_of_any_kind_is_named(tmp_path):
    for name in ("rows.parquet", "rows.feather", "rows.csv.gz"):
        (tmp_path / name).touch()
        with pytest.raises(ValueError, match=f"{name} is empty"):
            opened(tmp_path / name)


def test_data_without_rows_are_an_error(tmp_path):
    pq.write_table(TABLE.slice(0, 0), tmp_path / "rows.parquet")
    for data in (tmp_path / "rows.parquet", TABLE.slice(0, 0), io.BytesIO(b"a,b\n")):
        with pytest.raises(ValueError, match="has columns but no rows"):
            opened(data)


def folder(tmp_path, **contents):
    for name, content in contents.items():
        path = tmp_path / name.replace("__", "/").replace("_", ".").replace("EQ", "=")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content) if isinstance(content, str) else pq.write_table(pa.table(content), path)
    return tmp_path


FOLDERS = [
    ({}, "has no file to read"),
    ({"_hidden": "a"}, "has no file to read"),
    ({"a_csv": "a\n1\n", "b_parquet": {"a": ["1"]}}, "several kinds: a.csv is csv, b.parquet is parquet"),
    ({"a_csv": "a\n1\n", "b_md": "notes"}, "suffix of 'b.md' does not say"),
    ({"a_csv": "a,b\n1,2\n", "b_csv": "a,c\n1,2\n"}, "b.csv has other columns than a.csv: 'c' .* in place of 'b'"),
    ({"a_csv": "a,b\n1,2\n", "b_csv": "a\n1\n"}, "b.csv has other columns than a.csv: nothing in place of 'b'"),
    ({"a_csv": "a,b\n1,2\n", "b_csv": ""}, "b.csv is empty"),
    (
        {"a_parquet": {"a": [1]}, "b_parquet": {"a": ["1"]}},
        "b.parquet has other columns .*'a' .string. in place of 'a' .int64.",
    ),
    ({"a_parquet": {"a": [1]}, "b_parquet": "junk" * 9}, "b.parquet is not a Parquet file"),
    ({"aEQ1__a_csv": "a\n1\n"}, "a.csv has two columns 'a', one of them from the name of its folder"),
    ({"aEQ1__a_parquet": {"a": ["1"]}}, "a.parquet has two columns 'a', one of them from the name of its folder"),
    ({"aEQ1__x_csv": "b\n1\n", "cEQ1__y_csv": "b\n1\n"}, "y.csv has other columns than x.csv: 'c' .* in place of 'a'"),
    ({"a_csv": "a\n1\n", "old__a_csv": "a\n1\n"}, "contains the folder 'old'"),
]


@pytest.mark.parametrize(("contents", "message"), FOLDERS)
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, contents, message):
    with pytest.raises(ValueError, match=message):
        opened(folder(tmp_path, **contents))


def test_a_folder_may_contain_files_without_rows(tmp_path):
    assert rows(opened(folder(tmp_path, a_csv="a,b\n", b_csv="a,b\n1,2\n", c_csv="a,b\n"))) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("form", ["csv", "parquet", "feather", "pandas"])
def test_an_unknown_column_is_an_error_with_a_suggestion(tmp_path, form):
    with pytest.raises(
        ValueError, match=r"Unknown column of .*: 'sax'. Did you mean 'sex'\? Known: 'id', 'sex', 'note'"
    ):
        opened(FORMS[form](tmp_path)).tables(5, columns=["id", "sax"])


def test_a_size_of_0_and_an_empty_list_of_columns_are_errors():
    for options in ({"size": 0}, {"size": 5, "columns": []}):
        with pytest.raises(ValueError, match=r"needs at least one row|columns is empty"):
            opened(TABLE).tables(**options)


NO_DATA = [
    ([[1, 2]], "Data must be a file, a folder, '-' or a data frame; received list"),
    (pl.LazyFrame({"a": [1]}), "received LazyFrame.* collect a lazy frame"),
    (pd.DataFrame({0: [1]}), "Column names must be text"),
    (pd.DataFrame([[1, 2]], columns=["a", "a"]), "Column names must be unique"),
    (pd.DataFrame({"a": [1, "x"]}), "cannot be converted to Arrow .* Give each column a single type"),
    (io.StringIO("a,b\n1,2\n"), "Open the file with mode 'rb'"),
]


@pytest.mark.parametrize(("data", "message"), NO_DATA)
def test_data_of_other_types_are_an_error(data, message):
    with pytest.raises(ValueError, match=message):
        opened(data)


def test_names_are_only_for_csv(tmp_path):
    with pytest.raises(ValueError, match=r"names is for CSV without a header, but rows\.parquet already names its"):
        opened(FORMS["parquet"](tmp_path), names=["a"])
