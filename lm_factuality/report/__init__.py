"""Results as documents to look at."""
