"""D-FActScore: does a biography merge people who share a name?

In the order of the paper: ``types`` what the steps hand on; ``generations`` what a model wrote, its
passages, and pages of entities; ``decompose`` atomic facts and individuals; ``matrix`` what the
page of each entity says of each fact; ``link`` which entity an individual is; ``scores`` of a
response, ``summary`` of a set. ``method`` runs these steps, ``judging`` and ``task`` put them into
the suite, ``recount`` scores samples again, with people in the judge's place. Besides:
``decisions`` and ``released`` the authors' files and figures, ``certify`` and ``tally`` judges held
against them, ``measured`` the comparison with people, ``citations`` citation recall and
precision."""
