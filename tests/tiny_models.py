"""Tiny models of real architectures, and a server for one of them."""

from __future__ import annotations

import http.server
import itertools
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    OPTConfig,
    OPTForCausalLM,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)


def save_gpt2(
    folder: Path, tokenizer: PreTrainedTokenizerFast, seed: int = 0, value: float | None = None
) -> Path:
    """A GPT-2 with random weights, or with ``value`` in all of them."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=len(tokenizer), n_positions=256, n_embd=32, n_layer=2, n_head=1)
    )
    if value is not None:
        for parameter in model.parameters():
            parameter.data.fill_(value)
    return _save(folder, model, tokenizer)


def save_opt(folder: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """An OPT with random weights, and the habit of its tokenizer: every text starts with a token of
    its own."""
    from tokenizers.processors import TemplateProcessing

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
    """A T5 with random weights."""
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
    """A GPT-2 that says ``pieces`` after any prompt, each of them one token, and then ends; from
    one that comes again it goes on as it did the first time, for ever. ``special`` are those which
    its tokenizer leaves out when it decodes."""
    bytes_ = sorted(ByteLevel.alphabet())
    backend = Tokenizer(BPE(vocab={each: number for number, each in enumerate(bytes_)}, merges=[]))
    backend.pre_tokenizer, backend.decoder = ByteLevel(add_prefix_space=False), ByteLevelDecoder()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>"
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.add_tokens(
        [AddedToken(each, normalized=False) for each in pieces if each not in special]
    )
    tokenizer.chat_template = template
    size = len(tokenizer)
    config = GPT2Config(
        vocab_size=size,
        n_positions=16384,
        n_embd=size,
        n_layer=1,
        n_head=1,
        tie_word_embeddings=False,
        bos_token_id=None,
    )
    config.eos_token_id, config.pad_token_id = tokenizer.eos_token_id, tokenizer.pad_token_id
    model = GPT2LMHeadModel(config)
    for parameter in (
        model.transformer.wpe,
        *model.transformer.h[0].attn.children(),
        *model.transformer.h[0].mlp.children(),
    ):
        for each in parameter.parameters():
            each.data.zero_()
    said = [tokenizer.convert_tokens_to_ids(each) for each in (*pieces, "<eos>")]
    following = dict(reversed(list(itertools.pairwise(said))))
    model.transformer.wte.weight.data = torch.eye(size)
    model.lm_head.weight.data.zero_()
    for token in range(size):
        model.lm_head.weight.data[following.get(token, said[0]), token] = (
            50.0  # so that sampling is sure, too
        )
    return _save(folder, model, tokenizer)


def _save(folder: Path, model, tokenizer: PreTrainedTokenizerFast) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class CompletionsServer:
    """An OpenAI-compatible ``/v1/completions`` that echoes prompts with log-probabilities of a real
    model.

    ``fails`` says for a prompt (token ids) whether the answer is an error, of ``status``.
    """

    def __init__(
        self,
        folder: Path,
        fails: Callable[[list[int]], bool] = lambda prompt: False,
        status: int = 500,
    ) -> None:
        self.model = AutoModelForCausalLM.from_pretrained(folder).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.fails, self.num_requests = fails, 0
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                server.num_requests += 1
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                prompts = (
                    request["prompt"]
                    if isinstance(request["prompt"][0], list)
                    else [request["prompt"]]
                )
                if any(map(server.fails, prompts)):
                    self.send_error(status, "out of order")
                    return
                choices = [
                    {"index": index, "text": "", "logprobs": server.logprobs(prompt)}
                    for index, prompt in enumerate(prompts)
                ]
                body = json.dumps({"choices": choices}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.send_error(404)

            def log_message(self, *_):
                pass

        self._http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1/completions"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def logprobs(self, prompt: list[int]) -> dict:
        with torch.no_grad():
            logits = self.model(torch.tensor([prompt])).logits[0].log_softmax(-1)
        best, _ = logits.max(-1)
        values = [
            None,
            *(logits[i - 1, token].item() for i, token in enumerate(prompt) if i),
            best[-1].item(),
        ]
        top = [None, *({"best": best[i - 1].item()} for i in range(1, len(prompt) + 1))]
        return {"token_logprobs": values, "top_logprobs": top}

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
