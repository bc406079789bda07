"""Forged and broken submissions are refused with a code, and the honest one is accepted."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from lm_factuality.leaderboard import contents as contents_module
from lm_factuality.leaderboard.check import check_submission, find_submissions
from lm_factuality.leaderboard.submission import SUBMISSION_FILE
from lm_factuality.results.read import read_results_file
from lm_factuality.results.recompute import recompute

FACTOR = "sample_factor"
GEN = "sample_felm_gen"
BIO = "sample_ambigbio"
TOKEN = "hf_" + "a1B2" * 9


def test_an_honest_submission_is_accepted(honest):
    checked = check_submission(honest)

    assert checked.refusals == ()
    assert set(checked.evidence.tasks) == {FACTOR, GEN, BIO}


# Each of the following functions returns or is a way to forge a submission: a function that takes
# the `Forger` of an honest one.


def set_score(name, value, task=FACTOR):
    """State another score of a task."""
    return lambda forger: forger.change_results(
        lambda content: content["results"][task].update({name: value})
    )


def change_results(change):
    """Change the results file by a function that takes its content."""
    return lambda forger: forger.change_results(change)


def change_submission(change):
    """Change ``submission.json`` by a function that takes its content."""
    return lambda forger: forger.change_submission(change)


def change_rows(task, change, **options):
    """Change the samples of a task by a function that takes the list of them."""
    return lambda forger: forger.change_samples(task, change, **options)


def set_metadata(task, **changes):
    """State other metadata of a task."""
    return change_results(lambda content: content["configs"][task]["metadata"].update(changes))


def set_judge_config(**changes):
    """State another configuration of the judge."""
    return change_results(
        lambda content: content["configs"][GEN]["metadata"]["judge_config"].update(changes)
    )


def change_certificate(change):
    """Change the judge's certificate by a function that takes its content."""

    def forge(forger):
        path = forger.folder / "certificate.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")
        forger.seal()

    return forge


def change_answers(change):
    """Change the model's answer to each choice of FACTOR.

    ``change`` takes whether the choice is the true one, and the answer, and returns another answer.
    """

    def change_all_rows(rows):
        for row in rows:
            for choice, answer in enumerate(row["filtered_resps"]):
                changed = change(choice == row["doc"]["gold"], list(answer))
                row["resps"][choice] = [changed]
                row["filtered_resps"][choice] = changed

    return change_rows(FACTOR, change_all_rows)


def change_verdict(row, **changes):
    """Change the judge's verdict of one sample."""
    verdict = json.loads(row["filtered_resps"][0])
    row["filtered_resps"] = [json.dumps({**verdict, **changes})]


def verdict_of(row):
    """Return the judge's verdict of one sample."""
    return json.loads(row["filtered_resps"][0])


def sha256(text):
    """Return the hash of a text, as lm_eval computes it."""
    return hashlib.sha256(text.encode()).hexdigest()


def first_wrong_row(rows):
    """Return the first row of FACTOR on which the model is wrong."""
    return next(row for row in rows if not row["factor_acc"])


def make_a_row_right(rows):
    """Make the true completion of a row the likeliest, and change its metrics accordingly."""
    row = first_wrong_row(rows)
    gold = row["doc"]["gold"]
    row["resps"][gold][0][0] = "-0.5"
    row["filtered_resps"][gold][0] = "-0.5"
    row.update(factor_acc=1.0, factor_acc_best=1.0, factor_acc_worst=1.0)


def make_a_metric_right(rows):
    """Change a metric of a row, but not the responses that it follows from."""
    first_wrong_row(rows)["factor_acc"] = 1.0


def drop_a_row(rows):
    del rows[7]


def repeat_a_row(rows):
    rows[7] = rows[8]


def replace_a_document(rows):
    """Replace a published row by another one, with the hash that lm_eval would give it."""
    row = rows[3]
    row["doc"].update(problem="", location="sample_factor.csv:9999")
    row["doc_hash"] = sha256(json.dumps(row["doc"], indent=2, ensure_ascii=False))


def replace_a_document_but_not_its_hash(rows):
    rows[3]["doc"]["location"] = "elsewhere"


def change_a_prompt(rows):
    """Change the prompt of a row, with the hash that lm_eval would give it."""
    for argument in rows[0]["arguments"].values():
        argument["arg_0"] = "Answer well. " + argument["arg_0"]
    rows[0]["prompt_hash"] = sha256(rows[0]["arguments"]["gen_args_0"]["arg_0"])


def remove_errors_from_verdicts(rows):
    for row in rows:
        errors = verdict_of(row)["errors"]
        if errors:
            change_verdict(row, errors=[None] * len(errors))


def raise_scores_beside_judgements(rows):
    """Change a score of a biography, but not the judgements that it follows from."""
    row = next(row for row in rows if verdict_of(row)["scores"])
    change_verdict(row, scores={**verdict_of(row)["scores"], "d_factscore": 1.0})


def repeat_a_verdict(rows):
    rows[0]["filtered_resps"] = rows[1]["filtered_resps"]


def remove_half_of_the_verdicts(rows):
    for row in rows[: len(rows) // 2]:
        change_verdict(row, errors=None, unscored="nothing there")


def write_a_token_into_a_row(rows):
    text = f"error 401 for {TOKEN}"
    rows[5]["resps"][0][0][4] = text
    rows[5]["filtered_resps"][0][4] = text


def put_answers_into_prompts(rows):
    for row in rows:
        request = row["arguments"]["gen_args_0"]
        request["arg_0"] = f"{' '.join(row['doc']['reference_texts'])}\n{request['arg_0']}"


def cut_samples_off(forger):
    path = forger.samples(FACTOR)
    path.write_bytes(path.read_bytes()[:-100])
    forger.seal()


def remove_samples(forger):
    forger.samples(FACTOR).unlink()


def add_a_file(forger):
    (forger.folder / "model.bin").write_bytes(b"x")


def add_and_list_a_file(forger):
    add_a_file(forger)
    entry = {"path": "model.bin", "sha256": "0" * 64, "bytes": 0}  # sealing corrects hash and size
    forger.change_submission(lambda submission: submission["files"].append(entry))
    forger.seal()


def link_to_samples_outside(forger):
    path = forger.samples(FACTOR)
    moved_path = path.rename(forger.folder.parent / path.name)
    path.symlink_to(moved_path)


def list_a_path_upwards(submission):
    submission["files"][-1]["path"] = "../../etc/passwd"


def remove_the_certificate(forger):
    """Remove the judge's certificate, which is the first file of the submission."""
    forger.change_submission(
        lambda submission: submission.update(certificate=None, files=submission["files"][1:])
    )
    (forger.folder / "certificate.json").unlink()


def remove_a_task(content):
    del content["results"][BIO]
    del content["configs"][BIO]


def add_a_task(content):
    metadata = {"version": 1.0, "suite_version": "0.2.0"}
    content["results"]["arc_easy"] = {"acc,none": 1.0}
    content["configs"]["arc_easy"] = {"task": "arc_easy", "metadata": metadata}


def change_the_judge_s_prompt(content):
    judge_config = content["configs"][GEN]["metadata"]["judge_config"]
    judge_config["prompt_hashes"]["felm_gen/mark_segments"] = "0123456789abcdef"


def change_the_judge_s_temperature(content):
    content["configs"][GEN]["metadata"]["judge_config"]["decoding"]["temperature"] = 0.7


CASES = {
    "a score that is higher": (set_score("factor_acc,none", 0.99), "SCORE_CHANGED"),
    "a standard error that is smaller": (
        set_score("factor_acc_stderr,none", 0.001),
        "SCORE_CHANGED",
    ),
    "a score that is not there": (
        change_results(lambda content: content["results"][FACTOR].pop("factor_acc_worst,none")),
        "SCORE_CHANGED",
    ),
    "a judged score that is better": (
        set_score("segment_error_rate,judge", 0.0, GEN),
        "SCORE_CHANGED",
    ),
    "a biography score that is better": (set_score("d_factscore,judge", 1.0, BIO), "SCORE_CHANGED"),
    "a row that is now right": (change_rows(FACTOR, make_a_row_right), "SCORE_CHANGED"),
    "a row's metric alone": (change_rows(FACTOR, make_a_metric_right), "SCORE_CHANGED"),
    "verdicts without errors": (change_rows(GEN, remove_errors_from_verdicts), "SCORE_CHANGED"),
    "scores beside unchanged judgements": (
        change_rows(BIO, raise_scores_beside_judgements),
        "SCORE_CHANGED",
    ),
    "a verdict on another response": (change_rows(GEN, repeat_a_verdict), "SAMPLES_INVALID"),
    "samples changed, hash not": (
        change_rows(FACTOR, make_a_row_right, seal=False),
        "SAMPLES_CHANGED",
    ),
    "results changed, hash not": (
        lambda forger: forger.change_results(lambda content: content.update(date=0.0), seal=False),
        "FILE_CHANGED",
    ),
    "results changed to others of the same size": (
        lambda forger: forger.results.write_bytes(
            forger.results.read_bytes().replace(b"float32", b"float16")
        ),
        "FILE_CHANGED",
    ),
    "samples cut off": (cut_samples_off, "SAMPLES_INVALID"),
    "a row less": (change_rows(FACTOR, drop_a_row, rehash=True), "ROWS_DIFFER"),
    "a row twice": (change_rows(FACTOR, repeat_a_row, rehash=True), "ROWS_DIFFER"),
    "a row of one's own": (change_rows(FACTOR, replace_a_document, rehash=True), "WRONG_DATA"),
    "a row that is not hashed": (
        change_rows(FACTOR, replace_a_document_but_not_its_hash),
        "SAMPLES_CHANGED",
    ),
    "another data file": (
        set_metadata(FACTOR, data={"git_blob": "0" * 40, "rows": 432}),
        "WRONG_DATA",
    ),
    "a limited run": (
        change_results(lambda content: content["config"].update(limit=10)),
        "LIMIT_RUN",
    ),
    "a part of the documents": (
        change_results(lambda content: content["n-samples"][FACTOR].update(effective=10)),
        "LIMIT_RUN",
    ),
    "a file less": (remove_samples, "FILE_MISSING"),
    "a link": (link_to_samples_outside, "PATH_ESCAPES"),
    "a file that is not listed": (add_a_file, "FILE_EXTRA"),
    "a file that is of no run, though listed": (add_and_list_a_file, "FILE_EXTRA"),
    "a path upwards": (change_submission(list_a_path_upwards), "SUBMISSION_INVALID"),
    "no revision": (
        change_submission(lambda submission: submission["model"].update(revision="main")),
        "SUBMISSION_INVALID",
    ),
    "another format": (
        change_submission(lambda submission: submission.update(format=1)),
        "SUBMISSION_INVALID",
    ),
    "a token in a sample": (change_rows(FACTOR, write_a_token_into_a_row), "SECRET"),
    "a key in the results": (
        change_results(lambda content: content["config"]["model_args"].update(api_key="abc")),
        "SECRET",
    ),
    "a key set within a text of a task": (
        set_metadata(FACTOR, note="--model_args\napi_key=abcdefghijklmnop"),
        "SECRET",
    ),
    "a password in the submission": (
        change_submission(
            lambda submission: submission["model"].update(
                revision="api:x://me:secret@example.org/x"
            )
        ),
        "SECRET",
    ),
    "another suite": (set_metadata(FACTOR, suite_version="9.9.9"), "CONFIG_DIFFERS"),
    "another lm_eval": (
        change_results(lambda content: content.update(lm_eval_version="0.3.0")),
        "LM_EVAL_UNKNOWN",
    ),
    "another version of a task": (
        change_results(lambda content: content["versions"].update({FACTOR: 2.0})),
        "CONFIG_DIFFERS",
    ),
    "another dtype": (
        change_submission(lambda submission: submission["model"].update(dtype="bfloat16")),
        "MODEL_DIFFERS",
    ),
    "another commit": (
        change_results(lambda content: content["config"].update(model_sha="a" * 40)),
        "MODEL_DIFFERS",
    ),
    "a task less": (change_results(remove_a_task), "TASKS_MISSING"),
    "a task more": (change_results(add_a_task), "TASKS_EXTRA"),
    "a score of a group": (
        change_results(
            lambda content: content["results"].update(everything={"factor_acc,none": 1.0})
        ),
        "TASKS_EXTRA",
    ),
    "a smaller window": (set_metadata(FACTOR, window=128), "CONFIG_DIFFERS"),
    "ties go to the first": (set_metadata(FACTOR, protocol="code"), "CONFIG_DIFFERS"),
    "demonstrations": (
        change_results(lambda content: content["n-shot"].update({FACTOR: 5})),
        "CONFIG_DIFFERS",
    ),
    "a chat template": (
        change_results(lambda content: content.update(chat_template="{{ messages }}")),
        "CONFIG_DIFFERS",
    ),
    "longer answers": (
        change_results(
            lambda content: content["configs"][GEN]["generation_kwargs"].update(max_gen_toks=99)
        ),
        "CONFIG_DIFFERS",
    ),
    "a prompt of one's own": (change_rows(FACTOR, change_a_prompt, rehash=True), "CONFIG_DIFFERS"),
    "a judge's prompt of one's own": (change_results(change_the_judge_s_prompt), "CONFIG_DIFFERS"),
    "half without a verdict": (set_score("unscored,judge", 60.0, GEN), "UNSCORED_TOO_MANY"),
    "half without a verdict, in the samples": (
        change_rows(GEN, remove_half_of_the_verdicts),
        "SCORE_CHANGED",
    ),
    "no certificate": (remove_the_certificate, "JUDGE_UNCERTIFIED"),
    "the certificate of another judge": (
        change_certificate(lambda content: content["judge"].update(backend="openai")),
        "CERTIFICATE_MISMATCH",
    ),
    "another judge than certified": (
        change_results(change_the_judge_s_temperature),
        "CERTIFICATE_MISMATCH",
    ),
    "a certificate of other prompts": (
        change_certificate(
            lambda content: content["prompt_hashes"].update({"felm_gen/mark_segments": "0" * 16})
        ),
        "CERTIFICATE_MISMATCH",
    ),
    "no certificate, but a file of that name": (
        change_certificate(lambda content: [content.pop(key) for key in list(content)]),
        "CERTIFICATE_MISMATCH",
    ),
    "another leaderboard": (
        change_submission(lambda submission: submission.update(leaderboard="everything")),
        "LEADERBOARD_UNKNOWN",
    ),
    "an unknown key": (
        change_submission(lambda submission: submission.update(rank=1)),
        "SUBMISSION_INVALID",
    ),
    "a number for a text": (
        change_submission(lambda submission: submission["model"].update(dtype=32)),
        "SUBMISSION_INVALID",
    ),
    "no JSON": (
        lambda forger: (forger.folder / SUBMISSION_FILE).write_text("{", encoding="utf-8"),
        "SUBMISSION_INVALID",
    ),
    "a model of no organisation": (
        change_submission(lambda submission: submission["model"].update(name="../x")),
        "SUBMISSION_INVALID",
    ),
    "results that are none": (
        lambda forger: (
            forger.results.write_text('{"results": 3}', encoding="utf-8"),
            forger.seal(),
        ),
        "RESULTS_INVALID",
    ),
}


FORGED_SAMPLES = {
    "numbers in other digits": (
        change_answers(lambda is_true, answer: ["١", *answer[1:]] if is_true else answer),
        "SAMPLES_INVALID",
        "expected a valid number",
    ),
    "contradictions that are no numbers": (
        change_answers(lambda is_true, answer: ["-1" if is_true else "nan", *answer[1:]]),
        "SCORE_CHANGED",
        "the samples give nan",
    ),
    "rows of a second filter": (
        change_rows(FACTOR, lambda rows: rows.extend([{**row, "filter": "best"} for row in rows])),
        "SAMPLES_INVALID",
        "rows of 2 filters",
    ),
    "prompts with the answers": (
        change_rows(GEN, put_answers_into_prompts),
        "CONFIG_DIFFERS",
        "asked something",
    ),
    "a certificate of nobody": (
        change_certificate(lambda content: content.update(identity="nonsense")),
        "CERTIFICATE_MISMATCH",
        "identity",
    ),
    "a judge of its own coefficients": (
        set_judge_config(options={"coefficients": "mine.json"}),
        "CONFIG_DIFFERS",
        "the judge's coefficients is 'mine.json'",
    ),
    "retrieval in the backend": (
        change_results(lambda content: content["config"].update(model="hf-ralm")),
        "CONFIG_DIFFERS",
        "hf-ralm",
    ),
    "an adapter": (
        change_results(
            lambda content: content["config"].update(model_args="pretrained=x,peft=org/y")
        ),
        "CONFIG_DIFFERS",
        "what is added to the model is ['peft']",
    ),
    "an lm_eval that is too old": (
        change_results(lambda content: content.update(lm_eval_version="0.4.0")),
        "LM_EVAL_UNKNOWN",
        "lm_eval is '0.4.0'",
    ),
}


def refusal_codes(folder):
    """Return the codes of the reasons to refuse a submission."""
    return {refusal.code for refusal in check_submission(folder).refusals}


@pytest.mark.parametrize(("forge", "code"), CASES.values(), ids=CASES)
def test_a_forged_submission_is_refused_with_its_code(forge, code, forger):
    forge(forger)

    refusals = check_submission(forger.folder).refusals

    assert code in {refusal.code for refusal in refusals}, list(map(str, refusals))
    for refusal in refusals:  # secrets are not repeated
        assert TOKEN not in str(refusal)
        assert "me:secret" not in str(refusal)


@pytest.mark.parametrize(("forge", "code", "words"), FORGED_SAMPLES.values(), ids=FORGED_SAMPLES)
def test_a_refusal_says_what_is_forged(forge, code, words, forger):
    forge(forger)

    refusals = check_submission(forger.folder).refusals

    sentences = [refusal.sentence for refusal in refusals if refusal.code == code]
    assert any(words in sentence for sentence in sentences), list(map(str, refusals))


def test_a_file_that_is_too_large_is_refused_before_it_is_read(forger, monkeypatch):
    monkeypatch.setattr(contents_module, "MAX_FILE", 1000)

    assert refusal_codes(forger.folder) == {"TOO_LARGE"}


def test_results_of_two_models_are_refused(forger):
    content = json.loads(forger.results.read_text(encoding="utf-8"))
    content["model_name"] = "elsewhere/other"
    name = "results_2026-01-01T00-00-00.000000.json"
    (forger.folder / name).write_text(json.dumps(content), encoding="utf-8")
    entry = {"path": name, "sha256": "0" * 64, "bytes": 0}  # sealing corrects hash and size
    forger.change_submission(lambda submission: submission["files"].append(entry))
    forger.seal()

    assert {"MIXED_RUNS", "TASKS_EXTRA"} <= refusal_codes(forger.folder)


def test_too_many_unscored_responses_are_refused_even_if_stated(forger):
    forger.change_samples(GEN, remove_half_of_the_verdicts)
    recomputed = recompute(read_results_file(forger.results).task(GEN))
    scores = {f"{name},judge": value for name, value in recomputed.metrics.items()}
    forger.change_results(lambda content: content["results"][GEN].update(scores))

    assert "UNSCORED_TOO_MANY" in refusal_codes(forger.folder)


def test_submissions_are_found_below_a_folder(honest, tmp_path):
    for name in ("b", "a"):
        shutil.copytree(honest, tmp_path / name / "x")

    assert find_submissions(tmp_path) == [tmp_path / "a" / "x", tmp_path / "b" / "x"]


def test_a_submission_is_found_by_its_own_folder(honest):
    assert find_submissions(honest) == [honest]


def forge_thinking(forger, stated_tokens, requested_tokens):
    """Forge a run whose model thought before each answer.

    Args:
        forger: The forger of the submission.
        stated_tokens: How many tokens for thinking the tasks state.
        requested_tokens: How many tokens for thinking the requests had.
    """

    def think(rows):
        for row in rows:
            row["arguments"]["gen_args_0"]["arg_2"] = requested_tokens
            (responses,) = row["resps"]
            thought = "<think>Who?\nInstruction: none</think>"
            row["resps"] = [[f"{response}{thought}" for response in responses]]

    for task in (GEN, BIO):
        forger.change_samples(task, think)
        set_metadata(task, thinking_tokens=stated_tokens)(forger)


def test_tokens_for_thinking_are_accepted(forger):
    forge_thinking(forger, 4096, 4096)

    assert check_submission(forger.folder).refusals == ()


@pytest.mark.parametrize(
    ("stated_tokens", "requested_tokens", "problem"),
    [
        (40_000, 40_000, "thinking_tokens is 40000, expected 32768"),
        (4096, 40_000, "its generation arguments are not those of the leaderboard"),
        (-5, -5, "thinking_tokens is -5, expected 0"),
    ],
)
def test_impossible_tokens_for_thinking_are_refused(
    forger, stated_tokens, requested_tokens, problem
):
    forge_thinking(forger, stated_tokens, requested_tokens)

    refusals = check_submission(forger.folder).refusals

    assert {refusal.code for refusal in refusals} == {"CONFIG_DIFFERS"}
    assert all(problem in refusal.sentence for refusal in refusals)
