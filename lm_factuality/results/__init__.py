"""Reading lm_eval's results files as it wrote them, and every score of the suite's tasks found
again from the samples alone.
"""
