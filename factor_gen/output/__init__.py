"""What a build leaves behind: the rows as CSV and Parquet, a task that lm_eval runs, a dataset card
and a manifest."""
