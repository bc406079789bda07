"""Tiny models of real architectures, and a server for one of them."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)


def save_gpt2(
    folder: Path, tokenizer: PreTrainedTokenizerFast, seed: int = 0, value: float | None = None
) -> Path:
    """Save a GPT-2 with random weights, and return its folder.

    Args:
        folder: Where to save the model and its tokenizer.
        tokenizer: The tokenizer.
        seed: The seed of the weights.
        value: The value of all weights, in place of random ones.
    """
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), n_positions=256, n_embd=32, n_layer=2, n_head=1)
    )
    if value is not None:
        for parameter in model.parameters():
            parameter.data.fill_(value)
    return _save(folder, model, tokenizer)


def save_opt(folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Save an OPT with random weights, and return its folder.

    As with the real OPT, every text begins with a token that the tokenizer adds. The tokenizer is
    changed so that it does.
    """
    torch.manual_seed(0)
    bos = tokenizer.bos_token
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{bos} $A", special_tokens=[(bos, tokenizer.bos_token_id)]
    )
    config = OPTConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=256,
        word_embed_proj_dim=32,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    return _save(folder, OPTForCausalLM(config), tokenizer)


def save_t5(folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Save a T5 with random weights, and return its folder."""
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=16,
        d_ff=64,
        num_layers=2,
        num_heads=2,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=0,
    )
    return _save(folder, T5ForConditionalGeneration(config), tokenizer)


def save_reciter(
    folder: Path, pieces: Sequence[str], template: str | None = None, special: Sequence[str] = ()
) -> Path:
    """Save a GPT-2 that writes the same text after any prompt, and return its folder.

    Args:
        folder: Where to save the model and its tokenizer.
        pieces: The text, of which each piece is one token. The text ends after the last piece. If
            a piece occurs twice, the model goes on as after the first, and so never ends.
        template: The chat template.
        special: The pieces that the tokenizer leaves out when it decodes, as it does with marks.
    """
    tokenizer = _byte_tokenizer(pieces, special)
    tokenizer.chat_template = template
    piece_ids = [tokenizer.convert_tokens_to_ids(piece) for piece in (*pieces, "<eos>")]
    next_id: dict[int, int] = {}
    for piece_id, following_id in pairwise(piece_ids):
        next_id.setdefault(piece_id, following_id)

    vocab_size = len(tokenizer)
    model = _model_that_sees_only_the_last_token(vocab_size, tokenizer)
    for token_id in range(vocab_size):
        # Any token of the prompt is followed by the first piece.
        predicted_id = next_id.get(token_id, piece_ids[0])
        # The logit is so large that sampling takes this token, too.
        model.lm_head.weight.data[predicted_id, token_id] = 50.0
    return _save(folder, model, tokenizer)


def _byte_tokenizer(pieces: Sequence[str], special: Sequence[str]) -> PreTrainedTokenizerFast:
    """Return a tokenizer with a token for each byte and for each piece of `save_reciter`."""
    alphabet = sorted(ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    backend = Tokenizer(BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False)
    backend.decoder = ByteLevelDecoder()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.add_tokens(
        [AddedToken(piece, normalized=False) for piece in pieces if piece not in special]
    )
    return tokenizer


def _model_that_sees_only_the_last_token(
    vocab_size: int, tokenizer: PreTrainedTokenizerFast
) -> GPT2LMHeadModel:
    """Return a GPT-2 whose output head has one column for each last token, all of them zero."""
    config = GPT2Config(
        vocab_size=vocab_size,
        n_positions=16384,
        n_embd=vocab_size,
        n_layer=1,
        n_head=1,
        tie_word_embeddings=False,
        bos_token_id=None,
    )
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    model = GPT2LMHeadModel(config)
    # Without positions, attention and a feed-forward layer, only the embedding of a token is left.
    (layer,) = model.transformer.h
    for module in (model.transformer.wpe, *layer.attn.children(), *layer.mlp.children()):
        for parameter in module.parameters():
            parameter.data.zero_()
    model.transformer.wte.weight.data = torch.eye(vocab_size)
    model.lm_head.weight.data.zero_()
    return model


def _save(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Save a model and its tokenizer, and return the folder."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class CompletionsServer:
    """An OpenAI-compatible ``/v1/completions`` with the log-probabilities of a real model.

    It echoes prompts and generates nothing, as lm_eval asks for when it scores texts.
    """

    def __init__(
        self,
        folder: Path,
        fails: Callable[[list[int]], bool] = lambda prompt: False,
        status: int = 500,
    ) -> None:
        """Start the server.

        Args:
            folder: The checkpoint.
            fails: Whether the reply to a prompt, given as token ids, is an error.
            status: The HTTP status of such a reply.
        """
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.fails = fails
        self.num_requests = 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                server.num_requests += 1
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                prompts = request["prompt"]
                if not isinstance(prompts[0], list):
                    prompts = [prompts]  # a single prompt is not in a list
                if any(server.fails(prompt) for prompt in prompts):
                    self.send_error(status, "out of order")
                    return
                body = server.reply_body(prompts)
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self) -> None:
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                """Print nothing about requests."""

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1/completions"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def reply_body(self, prompts: list[list[int]]) -> bytes:
        """Return the body of the reply to prompts of token ids."""
        choices = [
            {"index": index, "text": "", "logprobs": self.logprobs(prompt)}
            for index, prompt in enumerate(prompts)
        ]
        return json.dumps({"choices": choices}).encode()

    def logprobs(self, prompt: list[int]) -> dict:
        """Return the log-probabilities of the tokens of a prompt, and of one token behind it.

        The first token has none, since nothing stands before it. The token behind the prompt is
        the most probable one.
        """
        with torch.no_grad():
            token_logprobs = self.model(torch.tensor([prompt])).logits[0].log_softmax(-1)
        highest = token_logprobs.max(-1).values.tolist()
        values: list[float | None] = [None]
        for position, token_id in enumerate(prompt[1:]):
            # The output at a position predicts the token behind it.
            values.append(token_logprobs[position, token_id].item())
        values.append(highest[-1])
        top_logprobs = [None, *({"best": logprob} for logprob in highest)]
        return {"token_logprobs": values, "top_logprobs": top_logprobs}

    def close(self) -> None:
        """Stop the server."""
        self._http.shutdown()
        self._http.server_close()
