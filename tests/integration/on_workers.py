"""Transforms that workers import: apart from the tests, whose imports take a worker several seconds."""

from __future__ import annotations

import os
import signal
import threading


class UnsendableError(Exception):
    """Cannot be pickled, like errors that hold a connection."""

    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class UncopyableError(Exception):
    """Is pickled, and cannot be made again from what was."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class WordyError(Exception):
    """Says more than Dask passes on."""


def breaks(file, *, how):
    if how == "unsendable":
        raise UnsendableError("a lock inside")
    if how == "uncopyable":
        raise UncopyableError("one", "two")
    if how == "wordy":
        raise WordyError("words " * 10_000)
    if how == "chained":
        raise KeyError("missing") from UnsendableError("the cause")
    raise ZeroDivisionError("plain")


def double(frame):
    return frame * 2


def as_table(files):
    import pandas as pd

    return pd.DataFrame({"value": [float(len(file.data)) for file in files]})


def as_array(frame):
    return frame["value"].to_numpy()


def dies(file):
    """Takes its worker along, each time."""
    os.kill(os.getpid(), signal.SIGKILL)
