"""D-FActScore: does a generated biography merge people who share a name?

The suite uses the modules of this package directly. In the order of the paper:

- ``types`` has the data that the steps pass on.
- ``generations`` reads biographies and the passages that the model was given.
- ``decompose`` has steps 1 and 2: atomic facts, and the individuals that they describe.
- ``matrix`` has step 3: what the page of each entity says about each fact.
- ``link`` has step 4: the entity of each individual.
- ``scores`` computes FActScore and D-FActScore.
- ``method`` runs the steps and makes the record of a response.
- ``people`` lets people take the judge's place.
- ``task`` and ``benchmark`` make the method a task and a benchmark of the suite.
- ``viewer`` shows judged biographies as a page.

``decisions`` and ``released`` reproduce the authors' figures from their files, ``certify`` measures
judges on these files, and ``citations`` measures citation recall and precision.
"""
