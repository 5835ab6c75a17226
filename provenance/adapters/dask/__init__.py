"""Dask: records where each partition came from while it is computed, without a change to the transforms.

::

    run ── building ── handles      what a user asks for, described and signed
     │         └ functions          who a transform is
    execution ── planning           one graph for all sinks, stages fused into tasks
     │    └ compute                 where it runs: processes here, a scheduler, this process
    steps ── operations, sources,   what a task does: compute, hash, put on the log, return
     │       tables, sinks_*
    emission, carried               to the log; from stage to stage

How it was chosen: a scheduler plugin sees no stage that was fused into another; wrapping ``map_partitions``
loses the parents; asking ``partition_info`` for numbers is wrong after a selection. So a stage's value is a
`Carried`: data with the reference to its record, hashed and recorded in the one task that computes it.
"""
