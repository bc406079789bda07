"""Results in the form that the Hub reads."""
