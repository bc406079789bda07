"""People in the judge's place: ``sheet`` what they can be asked about and see of it, ``labels``
what they do not see and what they say, ``agreement`` and ``responses`` how far they agree,
``correct`` scores without the judge's errors."""
