"""CSV and its kin, as one markdown table."""

import csv
import io

from tinymemory.documents.convert.plain import decoded
from tinymemory.documents.converted import Converted, markdown_table
from tinymemory.documents.raw import ConversionLimits, DocumentError, RawDocument

_DELIMITERS = ",;\t|"


def convert_csv(raw: RawDocument, limits: ConversionLimits) -> Converted:
    """A table, its delimiter found by looking."""
    text = decoded(raw)
    try:
        dialect: type[csv.Dialect] = csv.Sniffer().sniff(text[:8192], _DELIMITERS)
    except csv.Error:
        dialect = csv.excel
    rows: list[list[str]] = []
    left = limits.cells
    try:
        for row in csv.reader(io.StringIO(text), dialect):
            left -= len(row)
            if left < 0:
                raise DocumentError(
                    f"{raw.label}: the table has more than {limits.cells} cells", reason="too-large"
                )
            if any(row):
                rows.append(row)
    except csv.Error as error:
        raise DocumentError(f"{raw.label}: the table is malformed: {error}") from None
    return Converted(markdown_table(rows) + "\n")
