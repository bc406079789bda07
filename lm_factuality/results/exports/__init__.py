"""Results in the forms that others read: Every Eval Ever's records and the Hub's
``.eval_results``."""
