"""FACTOR for models that answer questions, chat and API models among them, whose servers give no
log-probabilities of a prompt.

``metrics`` says what a row asks, reads answers and scores rows; ``task`` is lm_eval's, and
``benchmark`` declares all of it, with the report's page and the leaderboard's audit."""
