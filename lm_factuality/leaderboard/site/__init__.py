"""The leaderboard as a static site: ``examine`` checks a submission, ``entries`` says what is known of it, ``cache`` keeps it,
``ranks`` orders, ``board`` makes rows and the JSON out of it, ``pages`` the pages, and ``build`` puts them in place."""

from lm_factuality.leaderboard.site.build import Built, build_site

__all__ = ["Built", "build_site"]
