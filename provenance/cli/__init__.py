"""Placeholder essay."""
