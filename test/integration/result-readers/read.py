"""Prints what DuckDB, pandas and openpyxl read of a Parquet file and a workbook, as JSON."""
import json
import sys

import duckdb
import openpyxl
import pandas

parquet, workbook = sys.argv[1:]
rows = duckdb.sql(f"select row, input, confidence, checked_at from '{parquet}' order by row")
types = duckdb.sql(f"select typeof(row), typeof(e164), typeof(checked_at) from '{parquet}'")
frame = pandas.read_parquet(parquet)
book = openpyxl.load_workbook(workbook)
sheet = book['Results']
print(json.dumps({
    'duckdb': [[r, i, c, t.isoformat()] for r, i, c, t in rows.fetchall()],
    'duckdbTypes': types.limit(1).fetchall()[0],
    'pandas': [[int(r.row), r.input, None if pandas.isna(r.confidence) else int(r.confidence),
                r.checked_at.isoformat()] for r in frame.itertuples()],
    'openpyxl': [[cell.value for cell in row[:3]] for row in sheet.iter_rows()],
    'types': sorted({cell.data_type for row in sheet.iter_rows() for cell in row}),
    'frozen': sheet.freeze_panes,
    'filter': sheet.auto_filter.ref,
    'summary': {row[0].value: row[1].value for row in book['Summary'].iter_rows()},
}))
