"""The voice pipeline: recordings in, log-mel features grouped by speaker out.

`stages` holds the transforms, each a plain function from one partition to one partition.
"""
