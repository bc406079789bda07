"""The quickstart on the embedded sample, whose truth is known.

``lm-factuality quickstart`` calls it. It also compares a judge with the truth about the sample's
biographies.
"""
