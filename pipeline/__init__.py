"""The reference pipelines: what a user of this package would write, kept as small as a user would keep it.

`pipeline.voice` takes recordings to log-mel features, one plain function per stage; the modules beside it are
the parts that are worth using alone: `audio` reads recordings strictly, `layouts` finds them, `transforms` is
the signal processing, `voices` obtains real speech, `synthetic` makes some where there is none, and
`speaker_model` learns who speaks. They use the public names of `provenance` only.
"""
