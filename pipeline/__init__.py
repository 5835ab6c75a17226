"""Reference pipelines."""
