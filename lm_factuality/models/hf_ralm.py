"""lm_eval model ``hf-ralm``: a language model that is shown what a retriever finds, every few
tokens.

In-context RALM (Ram et al., 2023) as in FACTOR's sections 4.3 and 5.2, for every task of
log-likelihoods: FACTOR, perplexity, lm_eval's own. All windows of a call are retrieved for at once
and computed as one forest."""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from lm_eval.api.instance import Instance
from pydantic import Field

from lm_factuality.ground.errors import ConfigError
from lm_factuality.ground.settings import Strict, Text, read_settings
from lm_factuality.harness import outputs
from lm_factuality.harness.outputs import Query
from lm_factuality.models.hf_tree import Answer, HFTree, TokenRequest
from lm_factuality.models.ralm import (
    EvaluatedDocument,
    Exclusion,
    Owner,
    Search,
    Window,
    augment,
    windows,
)
from lm_factuality.retrieval.build import open_index
from lm_factuality.retrieval.index import Hit
from lm_factuality.retrieval.passages import Passage

logger = logging.getLogger(__name__)

_RENAMED = {"protocol": "insertion", "stride": "retrieval_stride"}
Count = Annotated[int, Field(ge=1)]


class Retrieval(Strict):
    """The options beside those of ``hf-tree``; ``docs/models.md`` says what they do."""

    index: Annotated[
        Text, Field(description="a folder, made by: lm-factuality index build SOURCE --out FOLDER")
    ]
    retrieval_stride: Count = 8
    query_length: Count = 32
    num_documents: Count = 1
    document_length: Count = 256
    insertion: Literal["paper", "code"] = "paper"
    separator: str = "\n"
    exclude: str = "title+overlap"
    overlap_words: Count = 13


class HFRALM(HFTree):
    """``hf-tree`` with retrieval, whose options ``docs/models.md`` describes. Of a continuation
    ``retrieval_stride`` tokens at a time are predicted; the ``query_length`` tokens before them are
    searched for, and the ``num_documents`` best passages are prepended, title and text, the best
    one nearest to the text. They count as part of the task's window, so that the model sees no more
    than without retrieval: the beginning of the text gives way. With ``insertion=code`` a passage
    overwrites it instead, as in the authors' script. The evaluated document is not retrieved: with
    a passage that ``exclude`` recognises its whole article is left out (``ralm``). ``retrieved``
    has what was retrieved, and what was excluded and why, by (task, lm_eval's number of the row).
    Raises ConfigError, DataError: options or an index that cannot be used."""

    name = "hf-ralm"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        for name, own in _RENAMED.items():
            if name in kwargs:
                raise ConfigError(
                    f"hf-ralm: {name} is a setting of tasks, which lm_eval gives the model's too;"
                    f" pass {own}=..."
                )
        given = {name: kwargs.pop(name) for name in Retrieval.model_fields if name in kwargs}
        self._options = options = read_settings(Retrieval, given, self.name)
        self._exclusion = Exclusion.parse(options.exclude, options.overlap_words)
        self._index = open_index(options.index)
        self._separator = (
            "" if options.insertion == "code" else options.separator.replace("\\n", "\n")
        )
        super().__init__(*args, **kwargs)
        if self.backend != "causal":
            raise ConfigError(
                f"hf-ralm: {type(self.model).__name__} is not a decoder; passages are prepended to"
                " what it reads"
            )
        self._leave_room(self.max_length, "model's")
        self._document_tokens: dict[int, list[int]] = {}
        self.retrieved: outputs.Rows = {}
        outputs.latest_retrieved = self.retrieved

    @property
    def cache_identity(self) -> str:
        """What else than the model decides on a score; part of the names in lm_eval's response
        cache."""
        return repr(sorted(self.ralm_info().items()))

    def ralm_info(self) -> dict[str, Any]:
        """The options and the index by its identity, as results files show them."""
        return {
            "index": self._index.identity,
            "passages": len(self._index),
            **self._options.model_dump(exclude={"index", "separator", "exclude", "overlap_words"}),
            "separator": self._separator,
            "exclude_id": list(self._exclusion.id_keys),
            "exclude_title": self._exclusion.by_title,
            "exclude_overlap_words": self._exclusion.overlap,
        }

    def get_model_info(self) -> dict[str, Any]:
        """HFLM's, with the retrieval's options under ``ralm``, and for each task of this process
        how many ``rows`` had a search, in how many the index held the evaluated article
        (``article_found``) and would have shown it (``excluded``)."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for (task, _), row in self.retrieved.items():
            is_excluded = any(query["excluded"] for query in row["queries"])
            counts[task].update(
                rows=1, article_found=int(bool(row["articles"])), excluded=int(is_excluded)
            )
        by_task = {task: dict(each) for task, each in counts.items()}
        return {**super().get_model_info(), "ralm": {**self.ralm_info(), "retrieved": by_task}}

    def loglikelihood_of_sources(
        self,
        requests: Sequence[TokenRequest],
        sources: Sequence[Instance | None],
        windows: Sequence[int | None],
        disable_tqdm: bool = False,
    ) -> list[Answer]:
        """(log-likelihood in nats, whether it is what the model would say) of each request (key,
        context, continuation); ``sources`` tell which document must not be retrieved for it,
        ``windows`` how many tokens the model may see."""
        cut = self._cut(requests)
        augmented = self.augmented(cut, sources, windows)
        found = self._loglikelihood_tokens([(None, *each) for each in augmented], disable_tqdm)
        totals = [(0.0, True)] * len(requests)
        for window, (logprob, greedy) in zip(cut, found, strict=True):
            total, all_greedy = totals[window.request]
            totals[window.request] = (total + logprob, all_greedy and greedy)
        for (key, _, _), answer in zip(requests, totals, strict=True):
            if key is not None:
                self.cache_hook.add_partial("loglikelihood", key, answer)
        return totals

    def _cut(self, requests: Sequence[TokenRequest]) -> list[Window]:
        return windows(
            [(context, continuation) for _, context, continuation in requests],
            self._options.retrieval_stride,
        )

    def augmented(
        self,
        cut: Sequence[Window],
        sources: Sequence[Instance | None],
        limits: Sequence[int | None],
    ) -> list[tuple[list[int], list[int]]]:
        """(context with what was retrieved, targets) of each window, in tokens; one search for all.
        ``sources`` and ``limits`` (of all tokens of a window) are those of the requests. Raises
        ConfigError: a limit leaves no room for text."""
        for limit in limits:
            if limit is not None:
                self._leave_room(limit, "task's window of")
        owners = [_owner(number, source) for number, source in enumerate(sources)]
        search = Search(self._index, self._exclusion, self._documents(owners, sources))
        queried = (
            self.tok_decode(each.before[-self._options.query_length :], skip_special_tokens=True)
            for each in cut
        )
        keys = [
            (str(words), owners[window.request]) for words, window in zip(queried, cut, strict=True)
        ]
        found = search.retrieve(keys, self._options.num_documents)
        without = sum(not found[key][0] for key in keys)
        if without:
            logger.info("hf-ralm: nothing was found for %d of %d windows", without, len(cut))
        shown, queries = (
            [],
            {key: self._record(key, *each, search.banned[key[1]]) for key, each in found.items()},
        )
        for window, key in zip(cut, keys, strict=True):
            tokens = [
                token
                for hit in reversed(found[key][0])
                for token in self._tokens_of(hit.number, hit.passage)
            ]
            limit, source = limits[window.request], sources[window.request]
            context, targets = augment(
                window,
                tokens,
                self._options.insertion,
                self.max_length,
                self.prefix_token_id,
                limit,
            )
            shown.append((context, targets))
            queries[key]["predicts"].append(
                (source.idx if source else 0, str(self.tok_decode(targets)))
            )
            queries[key]["cut"] = max(
                queries[key]["cut"],
                len(window.before) + min(len(tokens), len(context)) - len(context),
            )
        return shown

    def _leave_room(self, tokens: int, what: str) -> None:
        number, length = self._options.num_documents, self._options.document_length
        if number * length + self._options.retrieval_stride >= tokens:
            raise ConfigError(
                f"hf-ralm: {number} documents of {length} tokens leave no room for text in the"
                f" {what} {tokens}; lower num_documents or document_length"
            )

    def _record(
        self,
        key: tuple[str, Owner],
        hits: list[Hit],
        excluded: dict[Hit, str],
        articles: dict[str, int],
    ) -> Query:
        reasons = {str(hit.number): reason for hit, reason in excluded.items()}
        query: Query = {
            "query": key[0],
            "predicts": [],
            "shown": [hit.number for hit in hits],
            "excluded": reasons,
            "cut": 0,
        }
        if key[1][1] >= 0:
            row = self.retrieved.setdefault(
                key[1], {"doc_id": key[1][1], "articles": {}, "queries": [], "passages": {}}
            )
            row["queries"].append(query)
            row["articles"].update(articles)
            row["passages"].update(
                {str(hit.number): asdict(hit.passage) for hit in (*hits, *excluded)}
            )
        return query

    def _tokens_of(self, number: int, passage: Passage) -> list[int]:
        if number not in self._document_tokens:
            tokens = self.tok_encode(passage.contents, add_special_tokens=False)[
                : self._options.document_length
            ]
            separator = (
                self.tok_encode(self._separator, add_special_tokens=False)
                if self._separator
                else []
            )
            self._document_tokens[number] = [*tokens, *separator]
        return self._document_tokens[number]

    def _documents(
        self, owners: Sequence[Owner], sources: Sequence[Instance | None]
    ) -> dict[Owner, EvaluatedDocument]:
        """What is known of the document of each row, from all requests about it together."""
        members: dict[Owner, list[Instance]] = {owner: [] for owner in owners}
        for owner, source in zip(owners, sources, strict=True):
            members[owner] += [source] if source else []
        texts = {
            owner: dict.fromkeys(
                "".join(part for part in each.args[:2] if isinstance(part, str))
                for each in instances
            )
            for owner, instances in members.items()
        }
        return {
            owner: self._exclusion.document([each.doc for each in members[owner]], texts[owner])
            for owner in members
        }

    def loglikelihood(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[Answer]:
        """lm_eval's request type, encoded as HFLM does."""
        return self.loglikelihood_of_sources(
            self._encode(requests), requests, [None] * len(requests), disable_tqdm
        )

    def _encode(self, requests: Sequence[Instance]) -> list[TokenRequest]:
        encoded: list[TokenRequest] = []
        for request in requests:
            context, continuation = request.args
            if context == "":
                tokens = self.tok_encode(continuation, add_special_tokens=False)
                prefix = [self.prefix_token_id]
                encoded.append(
                    (request.args, prefix, tokens)
                    if tokens[:1] != prefix
                    else (request.args, prefix, tokens[1:])
                )
            else:
                encoded.append((request.args, *self._encode_pair(context, continuation)))
        return encoded

    def loglikelihood_rolling(
        self, requests: Sequence[Instance], disable_tqdm: bool = False
    ) -> list[float]:
        """The sum of each text's log-probabilities, in nats, in HFLM's windows, in each of which
        retrieved passages take room."""
        return self._roll(
            requests,
            lambda parts, of: self.loglikelihood_of_sources(
                parts, of, [None] * len(parts), disable_tqdm
            ),
        )


def _owner(number: int, source: Instance | None) -> Owner:
    """The row that a request belongs to; a request of no row stands for itself, under a number
    below 0."""
    if source is None or source.task_name is None or source.doc_id is None:
        return "", -1 - number
    return source.task_name, source.doc_id
