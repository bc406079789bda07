"""D-FActScore: does a biography merge people who share a name?

In the order of the paper: ``types`` what the steps hand on; ``generations`` what a model wrote, the passages it was given, and
the pages of entities; ``decompose`` whether it declined, its atomic facts and the individuals a reader sees; ``matrix`` what the
page of each entity says of each fact; ``link`` which entity an individual is; ``scores`` of a response and ``summary`` of a set,
which all read the same matrix. ``method`` runs these steps, ``judging`` and ``task`` put them into the suite, ``recount`` scores
samples again, with people in the judge's place.

Besides: ``decisions`` and ``released`` the authors' files and figures, ``certify`` and ``tally`` judges held against them,
``measured`` the comparison with people, ``citations`` citation recall and precision."""
