"""Digests of data: exact, stable for ever, equal on every library version, chunking, encoding and machine.

A physical digest (``sha256``, ``tree1-sha256``) covers the bytes as stored: a loader or an outside auditor
checks it without decoding. A logical one (``table1-sha256``, ``array1-sha256``) covers what the bytes mean:
replay compares it, whatever the file format. Neither is ever taken of bytes that a library serialised,
since those change between releases. The layouts are those of spec/digests.md, version 1, and never change.

::

    table1(table)    frames  →  typenames, rows, sections  →  tables
    array1(array)    arrays
    tree1(entries)   trees, over provenance.core.merkle
    bytes1(chunks)   files

Everything here is pure: reading files belongs to the adapters.
"""

from __future__ import annotations

from provenance.core.digests.arrays import array1
from provenance.core.digests.files import bytes1
from provenance.core.digests.frames import as_table, bag_table
from provenance.core.digests.hashes import Algorithm
from provenance.core.digests.lists import MAX_LINE_BYTES, decode_line, encode_line, escape_name
from provenance.core.digests.model import KINDS, ColumnDigest, Digest, FileBytes, TreeEntry, parse_digest
from provenance.core.digests.schemas import conform, declare_schema, decode_schema, encode_schema
from provenance.core.digests.tables import table1, table1_bag
from provenance.core.digests.trees import tree1, tree_leaf, tree_order
from provenance.core.digests.typenames import decode_type, type_string

__all__ = [
    "KINDS",
    "MAX_LINE_BYTES",
    "Algorithm",
    "ColumnDigest",
    "Digest",
    "FileBytes",
    "TreeEntry",
    "array1",
    "as_table",
    "bag_table",
    "bytes1",
    "conform",
    "declare_schema",
    "decode_line",
    "decode_schema",
    "decode_type",
    "encode_line",
    "encode_schema",
    "escape_name",
    "parse_digest",
    "table1",
    "table1_bag",
    "tree1",
    "tree_leaf",
    "tree_order",
    "type_string",
]
