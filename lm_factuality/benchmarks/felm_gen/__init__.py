"""FELM-gen: how many of the evaluated model's own answers to FELM's prompts hold errors?

``steps`` what counts as an answer, how a judge cuts it into segments and marks them, ``judging``
all of it in order, up to the error rates, ``benchmark`` the rates out of samples, with people in
the judge's place."""
