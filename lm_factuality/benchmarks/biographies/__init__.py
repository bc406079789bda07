"""D-FActScore: does a biography merge people who share a name?

In the order of the paper: ``types`` has what the steps hand on; ``generations`` reads what a model
wrote, its passages, and pages of entities; ``decompose`` finds atomic facts and individuals;
``matrix`` says what the page of each entity says of each fact; ``link`` which entity an individual
is; ``scores`` scores a response and a set. ``method`` runs these steps and writes the record of a
response, ``people`` says what people are asked in the judge's place. ``task`` and ``benchmark`` put
both into the suite, ``viewer`` shows judged biographies.

Besides: ``decisions`` and ``released`` have the authors' files and figures, ``certify`` holds
judges against them, ``citations`` measures citation recall and precision.
"""
