"""FACTOR for models that answer questions, chat and API models among them, whose servers give no log-probabilities of a prompt.

``questions`` says what a row asks, reads answers and what they say of its choices, ``metrics`` scores rows;
``task`` is lm_eval's, ``page`` the report's, and ``benchmark`` declares all of it, with the leaderboard's audit.
"""
