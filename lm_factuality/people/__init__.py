"""People in the judge's place: sheets that they fill in, how far they agree, and what follows.

`sheet` draws what people are asked about, `labels` reads what they answer, `agreement` and
`responses` compare them with each other and with the judge, `correct` corrects scores for the
judge's errors. The commands ``lm-factuality people`` and leaderboards call them.
"""
