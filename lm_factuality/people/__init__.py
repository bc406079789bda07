"""People in the judge's place: ``units`` what they can be asked about, ``sheet`` what they see of it, ``key`` what they do not
see, ``labels`` what they say."""
