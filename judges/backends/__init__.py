"""Ways to reach a model, one file each: ``openai_http`` any OpenAI-compatible server, ``lm_eval_model`` any model of lm_eval,
``lexical`` no model at all. The other modules are parts of the first."""
