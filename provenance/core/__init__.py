"""The core: what is hashed, how it is chained, and how it is checked.

Everything here is pure: no file, no socket, no clock, no environment, so that a verifier can run it anywhere
and a test needs no set-up. From the
bottom up: `merkle` (the RFC 6962 tree), `canonical` (the one JSON form), `digests` (logical content of
tables, arrays and trees), `records` with
`schemas` and `kinds` (in-toto statements, DSSE), `tokens` (what stands in place of a person's name), `lists`,
`streams` and `batches` (log
positions and how they chain), `batcher` (the state machine that anchors them), `completeness`, `proofs` and
`trust` (what a verifier checks).
"""
