"""What those who build on the ports need to test their work; shipped, because others write adapters too.

`fakes` has every port in memory, with the misfortunes of the real thing; `faults` lets calls of any port
fail, lose their answers or end the process; `conformance` holds an adapter to its port (it needs pytest, and
nothing else here does); `vectors` runs the vectors of the formats against this implementation.
"""
