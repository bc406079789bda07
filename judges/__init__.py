"""Who decides whether text is factual: backends that answer prompts, the prompts, and the steps made of them.

``answers`` what is asked and what comes back, ``backends`` ways to reach a model, ``store`` every answer on disk before it is
used, ``asking`` the three together, ``config`` a judge as a YAML file, ``templates`` and ``prompts/`` its words.
"""
