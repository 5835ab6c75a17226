r"""Paths in, digest input out: what a file or folder holds, decoded by the library of its format.

===================  ================================================  ==========  ===========================
holds                told by                                           digest      read by
===================  ================================================  ==========  ===========================
Parquet              ``PAR1``, ``PARE``; ``.parquet``, ``.pq``         ``table1``  pyarrow
Arrow file, stream   ``ARROW1``, a schema message; ``.arrow`` …        ``table1``  pyarrow
CSV                  ``.csv``, ``.tsv``                                ``table1``  pyarrow, whose types it has
NumPy array          ``\x93NUMPY``; ``.npy``                            ``array1``  NumPy, no pickle
WAV, FLAC            ``RIFF``, ``RIFX``, ``RF64``, ``fLaC``; suffixes   ``array1``  soundfile (libsndfile)
Zarr array           a folder with ``zarr.json`` or ``.zarray``        ``tree1``   zarr, for ``--kind array1``
folder               a folder                                          ``tree1``   nobody: its files' bytes
any other file                                                         ``sha256``  nobody
===================  ================================================  ==========  ===========================

Content decides before the suffix; a suffix that the content belies is an error, so that a damaged file is
never taken for another kind. Everything comes out as one of the types of `Content`, or as an error that names
the file and the next step. Nothing here writes.
"""

from __future__ import annotations

from provenance.adapters.formats.files import sha256_file
from provenance.adapters.formats.folders import folder_entries, folder_paths
from provenance.adapters.formats.reading import Content, read_path

__all__ = ["Content", "folder_entries", "folder_paths", "read_path", "sha256_file"]
