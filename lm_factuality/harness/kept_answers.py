"""Keeps each answer of the evaluated model on disk until the results of the run are saved.

The same command then continues an interrupted run. `keep_answers` replaces the methods of a model
through which lm_eval and the suite get all answers. An answer is found again under a hash of
everything that can change it: the model with its weights and settings (`identity_of`), the request,
and, if it is sampled, its number among the samples of the request.

Clients of servers announce each answer as it arrives. Other models are asked batch by batch, and
the answers of a batch are stored together. A continued run makes the same batches, so its answers
are those of a run without interruption to the last digit.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
import sys
import threading
import time
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from lm_eval.api.instance import Instance
from lm_eval.api.model import LM, TemplateLM
from tqdm.auto import tqdm

from judges.answers import Answer
from lm_factuality.ground.packages import replaced
from lm_factuality.ground.published import cache_folder
from lm_factuality.ground.sqlite import exclusive_access, open_store
from lm_factuality.harness.progress import batch_size_of
from lm_factuality.harness.requests import (
    has_class_named,
    is_greedy_generation,
    may_skip_requests,
)

# In a run lm_eval shows the lines of its own loggers alone.
logger = logging.getLogger("lm_eval.evaluator")

SPLIT_METHOD = "split_into_batches"
"""The name of a method that models have if they choose the batches of their requests in tokens."""

_DAYS_KEPT = 30
_CONTENTS = "models' answers"
_APPLICATION_ID = 0x6C6D666B  # "lmfk", by which the file is told from other SQLite databases
_TABLE = (
    "CREATE TABLE answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL, time INTEGER NOT NULL)"
    " WITHOUT ROWID"
)
_LOCAL_BATCH = 512  # requests at once to a local model that chooses its batches by itself
_SEED_DIGITS = 15  # hexadecimal digits of a hash that fit into a seed of torch

# Arguments of models that do not change an answer.
_WITHOUT_EFFECT = frozenset(
    {
        "batch_size",
        "max_batch_size",
        "num_concurrent",
        "max_retries",
        "timeout",
        "api_key_env",
        "verify_certificate",
        "ca_cert_path",
        "device",
        "parallelize",
        "tensor_parallel_size",
        "data_parallel_size",
        "gpu_memory_utilization",
    }
)
# Attributes that tell models of one class apart. lm_eval's own command gives no arguments.
_ATTRIBUTES = (
    "pretrained",
    "model",
    "model_args",
    "base_url",
    "revision",
    "peft",
    "delta",
    "max_length",
    "add_bos_token",
    "softmax_dtype",
    "think_end_token",
    "chat_template_args",
    "_seed",
    "cache_identity",
)
_PACKAGES = ("lm_eval", "lm-factuality", "torch", "transformers", "vllm")
_CHECKPOINT_FILES = ("config.json", "tokenizer_config.json", "adapter_config.json")


TokenRequest: TypeAlias = tuple[Any, list[int], list[int]]
"""The key of a request in lm_eval's response cache, and the token ids of context and continuation.

`Keeper` replaces the key by a hash of its own."""


class Batches(NamedTuple):
    """The batches in which a model is asked."""

    indices: Sequence[Sequence[int]]
    """The indices of the requests of each batch."""

    found_size: int | None = None
    """The batch size that fits into memory, if it was tried out."""


class _AnswerKey(NamedTuple):
    """The key under which an answer is stored."""

    request_hash: str
    """The hash of the model and the request; empty if the answer cannot be stored."""

    number: str = ""
    """Tells the answers to equal requests apart: ``0.2`` is the third answer in process 0.

    It is empty if equal requests have the same answer, which can be stored.
    """

    @property
    def text(self) -> str:
        """The key in the store, such as ``1f...a9``, or ``1f...a9, sample 0.2`` for a sample."""
        return f"{self.request_hash}, sample {self.number}" if self.number else self.request_hash


class _Questions(NamedTuple):
    """Requests to a model, each with the key under which its answer is kept."""

    requests: Sequence[Sequence[Any]]
    """The arguments of each request."""

    keys: Sequence[_AnswerKey]
    """The key of each request. Equal requests have the same key, unless they are sampled."""

    ask: Callable[[list[int]], Sequence[Any]]
    """Asks the model the requests with the given indices, and returns its answers."""


class AnswerStore(Protocol):
    """Texts by key. lm_eval's response cache (``--use_cache``) is one as well."""

    def get(self, key: str) -> str | None:
        """Return the text of a key, or None."""

    def update(self, texts: Mapping[str, str]) -> None:
        """Store texts."""


class AnswerFile:
    """The SQLite file with the answers of runs whose results are not saved yet.

    Attributes:
        path: The file.
        settings: The settings of the run that can change an answer, such as its seeds.
    """

    def __init__(
        self,
        path: Path | None = None,
        settings: Mapping[str, Any] | None = None,
        *,
        is_fresh: bool = False,
    ) -> None:
        """Open the file. Answers in the user's cache folder are deleted after 30 days.

        Args:
            path: The file. By default it is in the user's cache folder, and `finish` deletes the
                answers of the run.
            settings: The settings of the run.
            is_fresh: Whether the run asks for all answers again, and deletes those of earlier runs
                that it would have found.

        Raises:
            DataError: The file cannot be used.
        """
        self.path = path or cache_folder() / "model_answers.sqlite"
        self.settings = settings or {}
        self._is_shared = path is None
        self._is_fresh = is_fresh
        self._lock = threading.Lock()
        self._used: set[str] = set()  # the keys that this run has asked for

        with self._exclusive_access():
            self._database = open_store(self.path, _APPLICATION_ID, (_TABLE,), _CONTENTS)
            if self._is_shared:
                oldest = int(time.time()) - _DAYS_KEPT * 24 * 60 * 60
                self._database.execute("DELETE FROM answers WHERE time < ?", (oldest,))

    def get(self, key: str) -> str | None:
        """Return the answer under a key, or None if there is none.

        In a fresh run, the first call for a key deletes the answer of an earlier run.
        """
        if self._is_fresh and key not in self._used:
            self._delete([key])
        self._used.add(key)
        with self._exclusive_access():
            query = "SELECT answer FROM answers WHERE key = ?"
            row = self._database.execute(query, (key,)).fetchone()
        return row[0] if row else None

    def update(self, texts: Mapping[str, str]) -> None:
        """Store answers by key, all or none of them."""
        now = int(time.time())
        rows = [(key, text, now) for key, text in texts.items()]
        self._change("INSERT OR REPLACE INTO answers VALUES (?, ?, ?)", rows)

    def finish(self) -> None:
        """Delete the answers of this run, whose results are saved, and close the file.

        A file that the user has named keeps its answers.
        """
        if self._is_shared:
            self._delete(self._used)
            with self._exclusive_access():
                # This shrinks the file, which would take long if other runs had answers in it.
                if not self._database.execute("SELECT 1 FROM answers LIMIT 1").fetchone():
                    self._database.execute("VACUUM")
        self._database.close()

    def _delete(self, keys: Iterable[str]) -> None:
        """Delete the answers under some keys."""
        self._change("DELETE FROM answers WHERE key = ?", [(key,) for key in keys])

    def _change(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Execute a statement of SQL with the values of each row, for all rows or for none."""
        with self._exclusive_access(), self._database:
            self._database.execute("BEGIN IMMEDIATE")
            self._database.executemany(statement, rows)

    def _exclusive_access(self) -> AbstractContextManager[None]:
        """Return the context in which one thread at a time uses the file."""
        return exclusive_access(self._lock, self.path, _CONTENTS)


@contextmanager
def keep_answers(lm: LM, store: AnswerStore | None) -> Iterator[None]:
    """Let a model keep its answers, and reuse those that are kept, within a ``with`` block.

    Args:
        lm: Any model of lm_eval.
        store: Where answers are kept. None keeps none.
    """
    if store is None or not may_skip_requests(lm):
        yield
        return

    keeper = Keeper(lm, store)
    keeper.restore_refused_options()
    generate = partial(keeper.answer_requests, "generate_until", lm.generate_until)
    with replaced(lm, cache_hook=keeper, generate_until=generate, **_scoring_method(lm, keeper)):
        yield


def _scoring_method(lm: LM, keeper: Keeper) -> dict[str, Callable[..., Any]]:
    """Return the name of the method that makes all scores of a model, and its replacement.

    A `TemplateLM` turns requests into tokens, and scores them in one method that takes tokens.
    `HFTree` has a method of its own, ``score_tokens``. Other models score requests in text.
    """
    if not isinstance(lm, TemplateLM):
        method = partial(keeper.answer_requests, "loglikelihood", lm.loglikelihood)
        return {"loglikelihood": method}
    name = "score_tokens" if hasattr(lm, "score_tokens") else "_loglikelihood_tokens"
    return {name: partial(keeper.score_tokens, getattr(lm, name))}


def answer_kept(
    lm: LM, requests: Sequence[Sequence[Any]], ask: Callable[[list[int]], Sequence[Any]]
) -> list[Any]:
    """Answer requests for text with the answers on disk, and have a server's client ask the others.

    Args:
        lm: lm_eval's client of the server. Outside of `keep_answers`, it is asked for everything.
        requests: The arguments of each request, under which the client stores its answer.
        ask: Asks the requests with the given indices, and returns their answers.

    Returns:
        The answers in the order of the requests. Those from disk have JSON's types: a dataclass has
        become a dictionary.
    """
    keeper = lm.cache_hook
    if not isinstance(keeper, Keeper):
        return list(ask(list(range(len(requests)))))
    return keeper.answer("generate_until", requests, ask)


class Keeper:
    """Answers requests to a model with answers that are kept, and keeps new ones.

    It takes the place of the model's ``cache_hook``, so that it learns of answers as they arrive.
    """

    dbdict = None
    """lm_eval's response cache, which this replaces."""

    num_kept = 0
    """How many requests were answered from disk."""

    def __init__(self, lm: LM, store: AnswerStore) -> None:
        """Prepare the keys for the answers of a model.

        Args:
            lm: The model.
            store: Where answers are kept. An `AnswerFile` also has the settings of the run.
        """
        self._lm = lm
        self._store = store
        self._is_client = has_class_named(lm, "TemplateAPI")
        settings = getattr(store, "settings", {})
        self._seeds = settings.get("seed")
        self._identity_hash = _digest(identity_of(lm, settings).encode())
        # How many numbered answers to each request the run has asked for, by the request's hash.
        self._num_numbered: Counter[str] = Counter()
        # The store also holds the options that the model's server has refused, under this key.
        self._refused_key = self._hash_request("refused options", [])
        # The keys for the answers that a client still has to receive, by the hash of the request. A
        # request has several keys if several samples of it are asked for.
        self._awaited_keys: dict[str, deque[_AnswerKey]] = defaultdict(deque)

    def restore_refused_options(self) -> None:
        """Tell the client which options its server has refused in an interrupted run.

        They are not sent again.
        """
        refused = self._store.get(self._refused_key)
        if refused and hasattr(self._lm, "remember_refused"):
            self._lm.remember_refused(json.loads(refused))

    def answer_requests(
        self,
        method: str,
        ask_model: Callable[..., Sequence[Any]],
        requests: Sequence[Instance],
        disable_tqdm: bool = False,
    ) -> list[Any]:
        """Answer requests of lm_eval. The model is only asked those whose answers are not kept.

        Args:
            method: The kind of request, such as ``generate_until``.
            ask_model: The model's own method of this name.
            requests: The requests.
            disable_tqdm: Whether to hide the progress bar.
        """
        options = {}
        # Some models of lm_eval take no such argument.
        if "disable_tqdm" in inspect.signature(ask_model).parameters:
            options["disable_tqdm"] = self._hides_own_bar(disable_tqdm)

        def ask(indices: Sequence[int]) -> Sequence[Any]:
            return ask_model([requests[index] for index in indices], **options)

        arguments = [request.args for request in requests]
        batches = None if self._is_client else self._text_batches(arguments)
        return self.answer(method, arguments, ask, batches, disable_tqdm)

    def _hides_own_bar(self, disable_tqdm: bool) -> bool:
        """Tell whether the model's own progress bar is hidden.

        A client gets all requests at once, and shows its bar. Other models are asked batch by
        batch, under one bar for all batches (`answer`).
        """
        return disable_tqdm or not self._is_client

    def score_tokens(
        self,
        score: Callable[..., list[Any]],
        requests: Sequence[TokenRequest],
        disable_tqdm: bool = False,
        **options: Any,
    ) -> list[tuple[float, bool]]:
        """Score requests in tokens. The model only computes the scores that are not kept.

        Args:
            score: The model's own method.
            requests: The requests.
            disable_tqdm: Whether to hide the progress bar.
            **options: Further options of the model's own method.

        Returns:
            For each request, the log-probability of the continuation, and whether it is the
            likeliest one.
        """
        hashed_requests: list[TokenRequest] = []
        for _, context, continuation in requests:
            # The last number says where the continuation begins.
            numbers = array("i", [*context, *continuation, len(context)])
            # A client announces an answer under the first part of its request, here the arguments
            # under which the answer is stored.
            stored_arguments = (_digest(numbers.tobytes()),)
            hashed_requests.append((stored_arguments, context, continuation))

        def ask(indices: Sequence[int]) -> Sequence[Any]:
            asked_requests = [hashed_requests[index] for index in indices]
            return score(asked_requests, disable_tqdm=self._hides_own_bar(disable_tqdm), **options)

        stored_requests = [stored_arguments for stored_arguments, _, _ in hashed_requests]
        batches = None if self._is_client else self._token_batches(requests)
        return self.answer("loglikelihood", stored_requests, ask, batches, disable_tqdm)

    def answer(
        self,
        method: str,
        requests: Sequence[Sequence[Any]],
        ask: Callable[[list[int]], Sequence[Any]],
        batches: Batches | None = None,
        disable_tqdm: bool = True,
    ) -> list[Any]:
        """Answer requests with answers that are kept, and ask the model the others.

        Args:
            method: The kind of request, such as ``loglikelihood``.
            requests: The arguments of each request.
            ask: Asks the requests with the given indices, and returns their answers.
            batches: The batches in which to ask; the answers of a batch are stored together. None
                for a client, which calls `add_partial` with each answer.
            disable_tqdm: Whether to hide the progress bar of the batches.

        Returns:
            The answers in the order of the requests.
        """
        keys = [self._next_key(method, request) for request in requests]
        questions = _Questions(requests, keys, ask)
        # Requests with the same key have the same answer, so only the first of them is asked.
        index_by_key: dict[_AnswerKey, int] = {}
        for index, key in enumerate(keys):
            index_by_key.setdefault(key, index)
        answers = self._find_stored_answers(index_by_key)
        self._note_reused(len(answers), len(index_by_key), method)
        unanswered = [index for key, index in index_by_key.items() if key not in answers]
        if batches is None:
            answers |= self._ask_client(questions, unanswered)
        else:
            with tqdm(
                total=len(index_by_key),
                initial=len(answers),
                desc=f"Running {method} requests",
                disable=disable_tqdm or self._lm.rank != 0,
            ) as bar:
                answers |= self._ask_in_batches(questions, set(unanswered), batches, bar)
        return [answers[key] for key in keys]

    def _hash_request(self, method: str, request: Sequence[Any]) -> str:
        """Return a hash of the model and a request, with which the keys of its answers begin.

        Args:
            method: The kind of request, such as ``loglikelihood``.
            request: The arguments of the request.

        Returns:
            64 hexadecimal digits; empty if JSON cannot hold an argument, such as an image.
        """
        try:
            text = json.dumps([self._identity_hash, method, request], sort_keys=True)
        except TypeError:
            return ""
        return _digest(text.encode())

    def _next_key(self, method: str, request: Sequence[Any]) -> _AnswerKey:
        """Return the key of the next answer to a request.

        The key gets a new number if the answer is a sample or cannot be stored. Equal greedy
        requests have the same key.

        Args:
            method: The kind of request, such as ``generate_until``.
            request: The arguments of the request.
        """
        request_hash = self._hash_request(method, request)
        generation_kwargs = request[1] if len(request) > 1 else None
        is_sampled = isinstance(generation_kwargs, dict) and not is_greedy_generation(
            generation_kwargs
        )
        if request_hash and not is_sampled:
            return _AnswerKey(request_hash)
        number = self._num_numbered[request_hash]
        self._num_numbered[request_hash] += 1
        return _AnswerKey(request_hash, f"{self._lm.rank}.{number}")

    def _find_stored_answers(self, keys: Iterable[_AnswerKey]) -> dict[_AnswerKey, Any]:
        """Return the answers that the store has, by key."""
        answers: dict[_AnswerKey, Any] = {}
        for key in keys:
            text = self._store.get(key.text) if key.request_hash else None
            if text is None:
                continue
            answer = json.loads(text)
            # Models give a score as a tuple, of which JSON makes a list.
            answers[key] = tuple(answer) if isinstance(answer, list) else answer
        return answers

    def _note_reused(self, num_kept: int, num_requests: int, method: str) -> None:
        """Count the answers that are reused, and log how many they are.

        Args:
            num_kept: The number of answers that were kept.
            num_requests: The number of distinct requests.
            method: The kind of request.
        """
        self.num_kept += num_kept
        if num_kept:
            logger.info(
                "%s of %s answers (%s) were kept and are reused; --fresh asks for all again",
                f"{num_kept:,}",
                f"{num_requests:,}",
                method,
            )

    def _ask_client(self, questions: _Questions, unanswered: list[int]) -> dict[_AnswerKey, Any]:
        """Send requests to a server, and store each answer as soon as it arrives.

        1. This method adds the keys of the requests to ``_awaited_keys``.
        2. ``questions.ask`` has lm_eval's client send the requests.
        3. The client calls `add_partial` with each answer, which stores it under an awaited key.

        Args:
            questions: All requests.
            unanswered: The indices of the requests to send.

        Returns:
            The answers by key.
        """
        if not unanswered:
            return {}
        keys = [questions.keys[index] for index in unanswered]
        for key in keys:
            if key.request_hash:
                self._awaited_keys[key.request_hash].append(key)
        answers = questions.ask(unanswered)
        # A key is left over if the client has not announced its answer.
        self._awaited_keys.clear()
        return dict(zip(keys, answers, strict=True))

    def add_partial(self, method: str, request: Sequence[Any], answer: object) -> None:
        """Store an answer that a client has just received. lm_eval's clients call this.

        Args:
            method: The kind of request.
            request: Its arguments.
            answer: The answer.
        """
        awaited_keys = self._awaited_keys.get(self._hash_request(method, request))
        # Models that are asked in batches call this as well, but their answers are stored later.
        if not awaited_keys:
            return
        # Samples of one request are interchangeable, so the first to arrive gets the first key.
        key = awaited_keys.popleft()
        texts = {key.text: _to_json(answer)}
        refused = getattr(self._lm, "refused_options", None)
        if refused:
            texts[self._refused_key] = json.dumps(sorted(refused))
        self._store.update(texts)

    def _ask_in_batches(
        self,
        questions: _Questions,
        unanswered: Collection[int],
        batches: Batches,
        bar: tqdm[Any],
    ) -> dict[_AnswerKey, Any]:
        """Ask a model batch by batch, and store the answers after each batch.

        Args:
            questions: All requests.
            unanswered: The indices of the requests to ask. The other requests of a batch are left
                out.
            batches: The batches of all requests, as the model would make them by itself.
            bar: The progress bar, which counts requests.

        Returns:
            The answers by key.
        """
        answers: dict[_AnswerKey, Any] = {}
        # Without this attribute, the model would try out the batch size again for each batch.
        size_override = {"batch_size_per_gpu": batches.found_size} if batches.found_size else {}
        with replaced(self._lm, **size_override):
            for batch in batches.indices:
                asked = [index for index in batch if index in unanswered]
                if asked:
                    answers |= self._ask_batch(questions, asked)
                    bar.update(len(asked))
        return answers

    def _ask_batch(self, questions: _Questions, asked: list[int]) -> dict[_AnswerKey, Any]:
        """Ask a model the requests of a batch, store its answers, and return them by key.

        Args:
            questions: All requests.
            asked: The indices of the requests to ask.
        """
        keys = [questions.keys[index] for index in asked]
        # All requests of a batch have the same options, so all or none are sampled.
        first_key = keys[0]
        if first_key.request_hash and first_key.number:
            self._seed_torch(questions.requests[asked[0]], first_key.number)

        answers = dict(zip(keys, questions.ask(asked), strict=True))
        self._store.update(
            {key.text: _to_json(answer) for key, answer in answers.items() if key.request_hash}
        )
        return answers

    def _seed_torch(self, request: Sequence[Any], sample_number: str) -> None:
        """Seed torch by the first request of a batch, so that earlier batches do not matter.

        A continued run then draws the same samples as one without interruption. The seed depends
        on the seeds of the run too, but not on the model, whose folder differs between machines.

        Args:
            request: The first request of the batch.
            sample_number: The number of the request among the equal ones, such as ``0.2``.
        """
        if "torch" not in sys.modules:
            return
        text = json.dumps([self._seeds, request, sample_number], sort_keys=True)
        seed = int(_digest(text.encode())[:_SEED_DIGITS], base=16)
        sys.modules["torch"].manual_seed(seed)

    def _token_batches(self, requests: Sequence[TokenRequest]) -> Batches:
        """Divide requests in tokens into batches as the model itself would, the longest first."""
        split_into_batches = getattr(self._lm, SPLIT_METHOD, None)
        if split_into_batches is not None:
            own_batches: list[list[int]] | None = split_into_batches(requests)
            # The model may leave the choice to this class.
            if own_batches is not None:
                return Batches(own_batches)

        # HFLM computes requests with the same input once, and counts them as one.
        if getattr(self._lm, "logits_cache", False):
            index_groups = _group_by_input(requests)
        else:
            index_groups = [[index] for index in range(len(requests))]
        # The requests with the same input are sorted by their first one.
        index_groups.sort(key=lambda indices: _longest_first(requests[indices[0]]))
        longest_requests = [requests[indices[0]] for indices in index_groups[:1]]
        return self._cut_into_batches([index_groups], longest_requests)

    def _text_batches(self, requests: Sequence[Sequence[Any]]) -> Batches:
        """Divide requests in text into batches with the same options, the longest first.

        Args:
            requests: The arguments of each request: a text, and options such as ``{"until":
                ["."]}``.
        """
        indices_by_options: dict[str, list[int]] = defaultdict(list)
        for index, (_, *options) in enumerate(requests):
            indices_by_options[repr(options)].append(index)
        groups = []
        for indices in indices_by_options.values():
            indices.sort(key=lambda index: -len(str(requests[index][0])))
            # The model computes each request by itself.
            groups.append([[index] for index in indices])
        return self._cut_into_batches(groups, longest_requests=None)

    def _cut_into_batches(
        self,
        groups: Sequence[Sequence[list[int]]],
        longest_requests: Sequence[TokenRequest] | None,
    ) -> Batches:
        """Cut groups of requests into batches of the model's batch size.

        Args:
            groups: For each group, the inputs of the model that may be in one batch. An input is
                the list of the indices of its requests.
            longest_requests: The longest request, in a list of one, by which the model tries out
                its batch size. None for requests in text.

        Returns:
            The batches. With the batch size 2, the group of the inputs ``[0]``, ``[1, 3]`` and
            ``[2]`` gives the batches ``[0, 1, 3]`` and ``[2]``.
        """
        if not any(groups):
            return Batches([])
        found_size = None
        size = batch_size_of(self._lm)
        if size is None and hasattr(self._lm, "_detect_batch_size"):
            # lm_eval's HFLM tries out how many of the longest requests fit into its memory.
            found_size = int(self._lm._detect_batch_size(longest_requests))
        size = size or found_size or _LOCAL_BATCH

        batches = []
        for inputs in groups:
            for start in range(0, len(inputs), size):
                batches.append(list(chain.from_iterable(inputs[start : start + size])))
        return Batches(batches, found_size)


def identity_of(lm: LM, settings: Mapping[str, Any]) -> str:
    """Return a text with everything that can change the answers of a model to a request.

    It holds the model's settings and data type, the versions of the packages that compute, and
    what identifies the weights: the sizes and times of the files of a folder, or the commit of a
    checkpoint on the Hub. A folder is named by its real path, however the user has named it. The
    weights behind a server cannot be known.

    Args:
        lm: The model.
        settings: The settings of the run that can change an answer. ``model_args`` are the model's
            arguments.
    """
    # Only a local model has weights, whose data type changes its answers.
    weights_dtype = getattr(getattr(lm, "model", None), "dtype", None)
    identity = {
        **settings,
        "model_args": _identify_all(settings.get("model_args") or {}),
        "class": type(lm).__name__,
        "attributes": _identifying_attributes(lm),
        "dtype": [str(getattr(lm, "softmax_dtype", None)), str(weights_dtype)],
        "versions": _installed_versions(),
    }
    return json.dumps(identity, sort_keys=True, default=str)


def _identifying_attributes(lm: LM) -> dict[str, object]:
    """Return those of `_ATTRIBUTES` that a model has, by name."""
    attributes: dict[str, object] = {}
    for name in _ATTRIBUTES:
        value = getattr(lm, name, None)
        # Other kinds of objects have texts that differ from run to run.
        if isinstance(value, str | int):
            attributes[name] = _identify(value)
        elif isinstance(value, dict):
            attributes[name] = _identify_all(value)
    return attributes


def _installed_versions() -> dict[str, str]:
    """Return the versions of those of `_PACKAGES` that are installed."""
    versions = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return versions


def _identify_all(values: Mapping[str, object]) -> dict[str, object]:
    """Return a model's arguments, each as `_identify` does, without those that change no answer."""
    return {name: _identify(value) for name, value in values.items() if name not in _WITHOUT_EFFECT}


def _identify(value: object) -> object:
    """Return what identifies an argument or an attribute of a model.

    A value identifies itself, unless it is the path of a folder or the name of a checkpoint on the
    Hub. These stay the same when the weights change, so the state of the files is added to them.

    Example:
        ``"models/mine"`` becomes ``["/home/ann/models/mine", "config.json 512 1767225600", ...]``.
    """
    if not isinstance(value, str) or not value or "://" in value:
        return value
    folder = Path(value).expanduser()
    # Unlike the method of Path, this function takes a text that is too long for a path.
    if os.path.isdir(folder):  # noqa: PTH112
        return _identify_folder(folder.resolve())

    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        # The path of a cached file holds the commit.
        cached_paths = [str(try_to_load_from_cache(value, name)) for name in _CHECKPOINT_FILES]
    except HFValidationError:
        # No checkpoint can have such a name.
        return value
    return [value, *cached_paths]


def _identify_folder(folder: Path) -> list[str]:
    """Return the path of a folder, and the name, size and time of each of its files."""
    files = []
    for path in sorted(folder.iterdir()):
        status = path.stat()
        files.append(f"{path.name} {status.st_size} {status.st_mtime_ns}")
    return [str(folder), *files]


def _digest(content: bytes) -> str:
    """Return the SHA-256 of some bytes in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _group_by_input(requests: Sequence[TokenRequest]) -> list[list[int]]:
    """Return the indices of the requests in tokens, grouped by the tokens that a model reads."""
    indices_by_input: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, (_, context, continuation) in enumerate(requests):
        # A model reads all tokens but the last.
        model_input = (*context, *continuation[:-1])
        indices_by_input[model_input].append(index)
    return list(indices_by_input.values())


def _longest_first(request: TokenRequest) -> tuple[int, list[int]]:
    """Return a key that sorts requests by length, the longest first, and then by their tokens."""
    _, context, continuation = request
    return -len(context) - len(continuation), [*context, *continuation]


def _to_json(answer: object) -> str:
    """Return an answer as JSON."""
    # JSON knows neither the dataclass of a server's reply nor numbers of numpy and torch.
    return json.dumps(
        answer, default=lambda part: asdict(part) if isinstance(part, Answer) else part.item()
    )
