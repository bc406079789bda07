"""Upstream data: what there is (``registry``), and how it gets here unchanged (``fetch``)."""
