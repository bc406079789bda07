"""People in the judge's place: ``units`` what they can be asked about, ``draw`` what of it is drawn, ``sheet`` what they see,
``key`` what they do not see, ``labels`` what they say."""
