"""The leaderboard as a site: ``entries`` says what is known of one and ranks scores, ``board``
makes rows, the JSON and pages, ``build`` checks entries, keeps what was found, and writes the
rest.
"""
