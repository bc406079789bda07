"""lm_eval model ``hf-ralm``: a language model that reads retrieved passages every few tokens.

In-context RALM (Ram et al., 2023) as in FACTOR's sections 4.3 and 5.2, for every task of
log-likelihoods. All windows of a call are retrieved for at once and computed as one forest.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from lm_eval.api.instance import Instance
from pydantic import Field

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import Strict, Text
from lm_factuality.harness import outputs
from lm_factuality.harness.context import current_run
from lm_factuality.harness.generation import JsonObject
from lm_factuality.models.hf_tree import Answer, HFTree, TokenRequest
from lm_factuality.models.ralm import (
    RULES,
    EvaluatedDocument,
    Exclusion,
    Query,
    RetrievedPassages,
    RowId,
    Search,
    Window,
    cut_windows,
    insert_passages,
)
from lm_factuality.retrieval.build import open_index
from lm_factuality.retrieval.index import Hit
from lm_factuality.retrieval.passages import Passage

Count = Annotated[int, Field(ge=1)]


_RULES = "none, or any of title, overlap and id:KEY joined by +"


class Retrieval(Strict):
    """The options that ``hf-ralm`` has in addition to those of ``hf-tree`` (docs/models.md)."""

    index: Annotated[
        Text, Field(description="a folder, made by: lm-factuality index build SOURCE --out FOLDER")
    ]
    retrieval_stride: Count = 8
    query_length: Count = 32
    num_documents: Count = 1
    document_length: Count = 256
    insertion: Literal["paper", "code"] = "paper"
    separator: str = "\n"
    exclude: Annotated[str, Field(pattern=f"^(?:{RULES})$", description=_RULES)] = "title+overlap"
    overlap_words: Count = 13


class HFRALM(HFTree):
    """``hf-tree`` with retrieval.

    ``retrieval_stride`` tokens of a continuation are predicted at a time. The ``query_length``
    tokens before them are searched for, and the ``num_documents`` best passages stand before the
    text, the best one nearest to it. Passages count as part of the task's window: the beginning of
    the text gives way. The evaluated document is not retrieved (see `ralm`).

    Raises:
        ConfigError: Options do not fit this model.
        DataError: The index cannot be used.
    """

    name = "hf-ralm"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Open the index, load the model and register the retrieved passages with the current run.

        Args:
            *args: Passed on to HFLM.
            **kwargs: The fields of `Retrieval`, and options of HFLM.
        """
        self.options = self.pop_settings(Retrieval, kwargs)
        self._exclusion = Exclusion.parse(self.options.exclude, self.options.overlap_words)
        self._index = open_index(self.options.index)
        # On the command line, users type a line break as a backslash and an n.
        separator = self.options.separator.replace("\\n", "\n")
        # The authors' code, which the insertion "code" follows, has no separator.
        self._separator = "" if self.options.insertion == "code" else separator

        super().__init__(*args, **kwargs)
        self.require_decoder()
        self._check_room(self.max_length, "model's")

        # The token ids of each passage, by its number in the index.
        self._passage_tokens: dict[int, list[int]] = {}
        # What was retrieved and excluded, by (task, lm_eval's number of the row).
        self.retrieved: outputs.Rows = {}
        # The run writes this dictionary to its output files when all requests are done.
        current_run().retrieved = self.retrieved

    @property
    def cache_identity(self) -> str:
        """The retrieval settings as text, which tell kept answers apart."""
        return repr(sorted(self.ralm_info().items()))

    def ralm_info(self) -> JsonObject:
        """Return the retrieval options and the index's identity as results files show them."""
        # These options appear below in the form in which they take effect.
        overridden = {"index", "separator", "exclude", "overlap_words"}
        return {
            "index": self._index.identity,
            "passages": len(self._index),
            **self.options.model_dump(exclude=overridden),
            "separator": self._separator,
            "exclude_id": list(self._exclusion.id_keys),
            "exclude_title": self._exclusion.by_title,
            "exclude_overlap_words": self._exclusion.overlap,
        }

    def get_model_info(self) -> JsonObject:
        """Return HFLM's description of the model, with the retrieval options under ``ralm``.

        Returns:
            The description. ``ralm.retrieved`` has three counts for each task:

            - ``rows``: rows for which passages were searched for
            - ``article_found``: rows whose own article is in the index
            - ``excluded``: rows whose own article was left out, although it ranked high enough
        """
        counts_by_task: dict[str, dict[str, int]] = {}
        for (task, _), row in self.retrieved.items():
            no_rows = {"rows": 0, "article_found": 0, "excluded": 0}
            counts = counts_by_task.setdefault(task, no_rows)
            counts["rows"] += 1
            counts["article_found"] += bool(row["articles"])
            counts["excluded"] += any(query["excluded"] for query in row["queries"])

        ralm_info = {**self.ralm_info(), "retrieved": counts_by_task}
        return {**super().get_model_info(), "ralm": ralm_info}

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Answer]:
        """Score the continuation of each request, with passages retrieved for it.

        The requests are remembered in ``_sources``, because HFLM passes on only their tokens.

        Args:
            requests: The requests, each with a context and a continuation.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            For each request, the log-likelihood of its continuation in nats and whether greedy
            decoding would generate it.
        """
        self._sources = requests
        answers: list[Answer] = super().loglikelihood(requests, disable_tqdm)
        return answers

    def _score_windows(
        self, windows: Sequence[TokenRequest], sources: Sequence[Instance], disable_tqdm: bool
    ) -> list[Answer]:
        """Score the windows of long texts, and remember which request each belongs to."""
        self._sources = sources
        return super()._score_windows(windows, sources, disable_tqdm)

    def _loglikelihood_tokens(
        self,
        requests: Sequence[TokenRequest],
        disable_tqdm: bool = False,
        override_bs: int | None = None,
    ) -> list[Answer]:
        """Score requests of lm_eval's own tasks, which set no limit on the visible tokens."""
        limits = [None] * len(requests)
        return self.loglikelihood_with_sources(requests, self._sources, limits, disable_tqdm)

    def loglikelihood_with_sources(
        self,
        requests: Sequence[TokenRequest],
        sources: Sequence[Instance],
        limits: Sequence[int | None],
        disable_tqdm: bool = False,
    ) -> list[Answer]:
        """Score the continuation of each request, given its context and retrieved passages.

        A continuation is scored a few tokens at a time. For each of these windows, the passages are
        retrieved anew.

        Args:
            requests: The cache key, the context and the continuation of each request. Context and
                continuation are lists of token ids.
            sources: For each request, the lm_eval request that it was made from. It names the row,
                whose document must not be retrieved.
            limits: How many tokens the model may see for each request, passages included. None is
                the model's own limit.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            For each request, the log-likelihood of its continuation in nats and whether greedy
            decoding would generate it.

        Raises:
            ConfigError: The passages would leave no room for the text.
        """
        for limit in limits:
            if limit is not None:
                self._check_room(limit, "task's window of")

        windows = cut_windows(requests, self.options.retrieval_stride)
        contexts = self.augment_windows(windows, sources, limits)
        window_requests: list[TokenRequest] = [
            (None, context, window.targets)
            for context, window in zip(contexts, windows, strict=True)
        ]
        window_answers = self.score_tokens(window_requests, disable_tqdm)

        # Log-likelihoods add up, and a continuation is greedy if all of its windows are.
        answers: list[Answer] = [(0.0, True)] * len(requests)
        for window, (window_logprob, is_window_greedy) in zip(windows, window_answers, strict=True):
            logprob, is_greedy = answers[window.request]
            answers[window.request] = (logprob + window_logprob, is_greedy and is_window_greedy)
        return answers

    def augment_windows(
        self,
        windows: Sequence[Window],
        sources: Sequence[Instance],
        limits: Sequence[int | None],
    ) -> list[list[int]]:
        """Retrieve passages for each window and insert them into its context.

        The searches, and what is predicted with each, are recorded in ``retrieved`` for the run's
        output files.

        Args:
            windows: The windows, i.e. a few tokens to predict with all tokens before them. Each has
                in ``Window.request`` the index of its request.
            sources: For each request, the lm_eval request that it was made from.
            limits: How many tokens the model may see of each request, passages included. None is
                the model's own limit.

        Returns:
            The token ids that the model reads before each window's targets.
        """
        # The search never returns passages of the document that a row was made from.
        documents = self._documents_by_row(sources)
        search = Search(self._index, self._exclusion, documents)
        queries = [self._search_query(window, sources[window.request]) for window in windows]
        results = search.retrieve(queries, self.options.num_documents)
        records = {}
        for query, result in results.items():
            records[query] = self._record_search(query, result, search.banned[query.row])

        contexts = []
        for window, query in zip(windows, queries, strict=True):
            passages = self._tokens_of_passages(results[query].hits)
            context = insert_passages(
                window,
                passages,
                insertion=self.options.insertion,
                max_length=self.max_length,
                first_token=self.prefix_token_id,
                limit=limits[window.request],
            )
            contexts.append(context)
            # A context consists of the passages and the part of the text that is kept.
            num_kept = max(0, len(context) - len(passages))
            self._record_prediction(records[query], window, sources[window.request], num_kept)
        return contexts

    def _search_query(self, window: Window, source: Instance) -> Query:
        """Return the query for the passages of a window: the last words before its targets.

        Args:
            window: The tokens to predict and the tokens before them.
            source: The lm_eval request that the window was cut from.
        """
        tokens = window.before[-self.options.query_length :]
        return Query(str(self.tok_decode(tokens, skip_special_tokens=True)), _row_id(source))

    def _tokens_of_passages(self, hits: Sequence[Hit]) -> list[int]:
        """Return the token ids of passages, ordered so that the best one stands next to the text.

        Args:
            hits: The passages, the best one first.
        """
        tokens: list[int] = []
        for hit in reversed(hits):
            # Many windows read the same passage, so its tokens are kept.
            if hit.number not in self._passage_tokens:
                self._passage_tokens[hit.number] = self._encode_passage(hit.passage)
            tokens += self._passage_tokens[hit.number]
        return tokens

    def _encode_passage(self, passage: Passage) -> list[int]:
        """Return the tokens of a passage, which is cut if it is too long, and of the separator."""
        all_tokens: list[int] = self.tok_encode(passage.contents, add_special_tokens=False)
        tokens = all_tokens[: self.options.document_length]
        if self._separator:
            tokens += self.tok_encode(self._separator, add_special_tokens=False)
        return tokens

    def _check_room(self, max_tokens: int, description: str) -> None:
        """Check that passages and one stride of text fit into a window of ``max_tokens`` tokens.

        Args:
            max_tokens: The size of the window.
            description: How the error message names the window, such as "model's".

        Raises:
            ConfigError: They do not fit.
        """
        num_documents = self.options.num_documents
        length = self.options.document_length
        if num_documents * length + self.options.retrieval_stride >= max_tokens:
            raise ConfigError(
                f"hf-ralm: {num_documents} documents of {length} tokens leave no room for text in"
                f" the {description} {max_tokens}; lower num_documents or document_length"
            )

    def _documents_by_row(self, requests: Sequence[Instance]) -> dict[RowId, EvaluatedDocument]:
        """Describe the document behind each row, so that it can be excluded from retrieval.

        Args:
            requests: The lm_eval requests. All requests of a row contribute their texts.

        Returns:
            The ids, titles and word sequences of each row's document.
        """
        requests_by_row: dict[RowId, list[Instance]] = defaultdict(list)
        for request in requests:
            requests_by_row[_row_id(request)].append(request)
        documents = {}
        for row_id, row_requests in requests_by_row.items():
            rows = [request.doc for request in row_requests]
            # All windows of a long text repeat it, so equal texts are left out.
            texts = dict.fromkeys(map(_text_of, row_requests))
            documents[row_id] = self._exclusion.collect_features(rows, texts)
        return documents

    def _record_search(
        self, query: Query, passages: RetrievedPassages, articles: dict[str, int]
    ) -> outputs.Query:
        """Record a search and its passages in ``retrieved``, for the run's output files.

        Args:
            query: The text that was searched for, and the row that it is for.
            passages: The passages that were retrieved and those that were excluded.
            articles: The excluded articles, each with the number of the passage by which it was
                recognised.

        Returns:
            The record of the search, without predictions. `_record_prediction` adds them.
        """
        search_record = outputs.Query(
            query=query.text,
            # The texts that the model predicts with these passages.
            predicts=[],
            shown=[hit.number for hit in passages.hits],
            excluded={str(hit.number): reason for hit, reason in passages.excluded.items()},
            # How many tokens of the text are cut to make room for the passages.
            cut=0,
        )
        _, doc_id = query.row
        # A row has one record, although several searches may be for it.
        row_record = self.retrieved.setdefault(
            query.row, outputs.RetrievedRow(doc_id=doc_id, articles={}, queries=[], passages={})
        )
        row_record["queries"].append(search_record)
        row_record["articles"].update(articles)
        for hit in (*passages.hits, *passages.excluded):
            row_record["passages"][str(hit.number)] = asdict(hit.passage)
        return search_record

    def _record_prediction(
        self, search_record: outputs.Query, window: Window, source: Instance, num_kept: int
    ) -> None:
        """Add what is predicted in a window to the record of its search.

        Windows with the same query share a record.

        Args:
            search_record: The record, whose ``predicts`` and ``cut`` are changed.
            window: The tokens to predict and the tokens of the text before them.
            source: The lm_eval request that the window was cut from.
            num_kept: How many tokens of the text the model reads together with the passages.
        """
        predicted = str(self.tok_decode(window.targets))
        # ``idx`` is the number of the choice, such as 0 to 3 for FACTOR's four completions.
        search_record["predicts"].append((source.idx, predicted))
        # The record tells how many tokens were cut from the window that lost most of its text.
        num_cut = len(window.before) - num_kept
        search_record["cut"] = max(search_record["cut"], num_cut)


def _row_id(request: Instance) -> RowId:
    """Return the task and the number of the row that an lm_eval request was made from."""
    return request.task_name or "", request.doc_id or 0


def _text_of(request: Instance) -> str:
    """Return the context and the continuation of an lm_eval request as one text.

    A request for a whole text has only options after it, which are no strings.
    """
    return "".join(part for part in request.args[:2] if isinstance(part, str))
