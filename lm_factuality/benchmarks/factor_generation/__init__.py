"""FACTOR in open generation (section 6 of the FACTOR paper): what does a model write where it could
state a fact or violate it?

``facts`` the minimal fact of a row, what a model made of it, and what a judge says of that,
``tally`` from marks to the table of the paper, ``judging`` all in order, ``benchmark`` the scores
out of samples, with people in the judge's place."""
