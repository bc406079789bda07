"""The lexical judge, which needs no model: it compares the words, names and numbers of texts.

`judges.backends.lexical` asks it, by these modules:

- ``words`` parses a text, and ``comparison`` compares a claim with its passages.
- ``model`` makes a probability and a reason of the comparison.
- ``contradiction`` finds numbers, dates, names and negations that differ, and ``verdicts`` decides
  with it and ``model`` between supported, contradicted and not found.
- ``facts`` takes a sentence apart into facts by rules, and groups facts by individual.
- ``grades`` grades short answers.

In a checkout, ``python -m bench.lexical.fit`` fits the coefficients on labelled citations, and
``python -m bench.lexical.evaluate`` measures how good they are on others.
"""
