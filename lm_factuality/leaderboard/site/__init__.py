"""The leaderboard as a static site.

``build`` checks the submissions and writes the site, ``entries`` ranks their scores, and ``board``
makes the tables, the pages and the JSON file.
"""
