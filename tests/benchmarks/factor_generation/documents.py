"""Documents of open generation and verdicts on them, for tests."""

KEEPER = "Its first keeper was a sailor from the north."


def make_document(doc_id="d0", mean_logprob=(-1.0, -2.0, -3.0, -4.0), no_fact="", **changes):
    """Make a document as the task does, whose fact is that a keeper was a sailor, not a baker.

    Args:
        doc_id: The document that the row is from.
        mean_logprob: The model's scores of the true completion and of three contradictions. The
            fact is that of the first contradiction. By default, the model prefers the truth.
        no_fact: Why nothing can be generated for the row.
        **changes: Other values of fields.
    """
    return {
        "doc_id": doc_id,
        "prefix": "The library opened in 1870. ",
        "problem": "",
        "no_fact": no_fact,
        "choices": [KEEPER, "a", "b", "c"],
        "gold": 0,
        "contradiction": -1 if no_fact else 1,
        "mean_logprob": list(mean_logprob),
        "factor_acc": None,
        "stem": "Its first keeper was a",
        "true": KEEPER,
        "false": "Its first keeper was a baker from the north.",
        "true_edit": "sailor",
        "false_edit": "baker",
        **changes,
    }


def make_verdict(*marks):
    """Make a judge's verdict from the marks of the generations, None of an unscored one."""
    reasons = [None if mark else "unread" for mark in marks]
    return {"marks": list(marks), "reasons": reasons}
