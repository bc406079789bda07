"""Checks people's own answers against their own documents."""
