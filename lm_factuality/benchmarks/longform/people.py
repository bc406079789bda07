"""What people are asked of long answers: as of biographies, grouping and linking only where entities are told apart."""

from lm_factuality.benchmarks.biographies.people import people_of
from lm_factuality.benchmarks.longform.judging import generation, recount

PEOPLE = people_of(generation, recount, "entity")
