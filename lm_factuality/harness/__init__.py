"""How the suite plugs into lm_eval: the only modules that know its internals. Tasks and models use
its public interface.

``requests`` adds a request type that returns token counts with log-likelihoods, ``rolling`` one for
whole documents; ``suite_task`` is what tasks share, ``judging`` has a judge mark what a model
wrote, ``tasks`` finds YAMLs, ``run`` runs."""
