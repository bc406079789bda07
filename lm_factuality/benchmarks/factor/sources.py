"""FACTOR's published files."""

from lm_factuality.ground.published import Source

_FACTOR = ("AI21Labs/factor", "ee9de30abf28e94b163167dc41ad51fbbdb48c32")

# Row counts: section 3.3 of the paper. Licences: its table 5, those of the corpora the files were made from.
SOURCES = (
    Source("wiki_factor", *_FACTOR, "data/wiki_factor.csv", "793f9df0b0f02c9ba54d3f82d00d1f7355ad0c2e", "MIT", 2994),
    Source("news_factor", *_FACTOR, "data/news_factor.csv", "a57148bb7875cb77cddce0637b069576281c9a49", "ODC-By-1.0", 1036),
    Source("expert_factor", *_FACTOR, "data/expert_factor.csv", "3bd51de8d01156730c61cdc42b955b69192e682d", "MIT", 236),
)
