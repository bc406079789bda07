"""The first run, on the embedded sample, and how near a judge comes to the known truth of its
made-up biographies.
"""
