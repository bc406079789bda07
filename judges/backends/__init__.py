"""Ways to reach a model, a file each.

``openai_http`` is any OpenAI-compatible server (a call to it is in ``server``), ``lm_eval_model``
any model of lm_eval, ``classifier`` a model made to verify, ``cascade`` one judge after another,
``lexical`` no model at all. A new backend is a `judges.answers.Backend` that is made of
``(config, purse)``, and its entry in ``judges/backends.yaml``.
"""
