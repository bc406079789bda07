"""D-FActScore: does a biography merge people who share a name?

In the order of the paper: ``types`` has what the steps hand on; ``generations`` reads what a model
wrote, its passages, and pages of entities; ``decompose`` finds atomic facts and individuals;
``matrix`` says what the page of each entity says of each fact; ``link`` which entity an individual
is; ``scores`` scores a response and a set. ``method`` runs these steps, ``judging``, ``task`` and
``benchmark`` put them into the suite, ``viewer`` shows judged biographies, ``recount`` scores
samples again, with people in the judge's place.

Besides: ``decisions`` and ``released`` have the authors' files and figures, ``certify`` and
``tally`` hold judges against them, ``citations`` measures citation recall and precision.
"""
