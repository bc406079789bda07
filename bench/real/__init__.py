"""``make real``: the suite on published data with a real language model, as one table."""
