"""transformers: `generate` of a compiled model in its cache modes and decoding methods."""

from __future__ import annotations

from typing import Any

import torch

from tests.ecosystem.program import Built, Compile, integers, normal, program


def llama(**options: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
        **options,
    )
    return LlamaForCausalLM(config).eval()


def generating(compile: Compile, model: Any, **options: Any) -> Built:
    compiled = compile(model)

    def call(input_ids: torch.Tensor) -> torch.Tensor:
        return compiled.generate(input_ids, attention_mask=torch.ones_like(input_ids), **options)

    return Built(call, lambda n: {"input_ids": integers(n, 250, 2, 12 + n) + 2}, (model,))


@program("transformers", "`generate`, dynamic cache, greedy")
def generate(compile: Compile) -> Built:
    return generating(compile, llama(), max_new_tokens=24, do_sample=False)


@program("transformers", "`generate`, static cache")
def generate_static(compile: Compile) -> Built:
    return generating(compile, llama(), max_new_tokens=24, do_sample=False, cache_implementation="static")


@program("transformers", "`generate`, no cache")
def generate_without_cache(compile: Compile) -> Built:
    return generating(compile, llama(), max_new_tokens=12, do_sample=False, use_cache=False)


@program("transformers", "`generate`, sliding window cache (Mistral)")
def generate_sliding(compile: Compile) -> Built:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=256,
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=16,
        pad_token_id=0,
        eos_token_id=None,
    )
    return generating(compile, MistralForCausalLM(config).eval(), max_new_tokens=24, do_sample=False)


@program("transformers", "`generate`, sampled: temperature, top-k, top-p, repetition penalty")
def generate_sampled(compile: Compile) -> Built:
    return generating(
        compile,
        llama(),
        max_new_tokens=24,
        do_sample=True,
        temperature=0.8,
        top_k=50,
        top_p=0.95,
        repetition_penalty=1.1,
    )


@program("transformers", "`generate`, beam search")
def generate_beams(compile: Compile) -> Built:
    return generating(compile, llama(), max_new_tokens=16, num_beams=4, do_sample=False)


@program("transformers", "`generate` of T5: encoder, decoder, both caches")
def generate_t5(compile: Compile) -> Built:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=256,
        d_model=64,
        d_kv=16,
        d_ff=128,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        eos_token_id=None,
    )
    return generating(compile, T5ForConditionalGeneration(config).eval(), max_new_tokens=16, do_sample=False)


@program("transformers", "`generate` of Whisper on mel features")
def generate_whisper(compile: Compile) -> Built:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=256,
        d_model=64,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_ffn_dim=128,
        max_source_positions=50,
        max_target_positions=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config).eval()
    model.generation_config.eos_token_id = None
    compiled = compile(model)

    def call(input_features: torch.Tensor) -> torch.Tensor:
        return compiled.generate(input_features, max_new_tokens=16, do_sample=False)

    return Built(call, lambda n: {"input_features": normal(n, 1, 80, 100)}, (model,))


class Texts(torch.utils.data.Dataset[dict[str, torch.Tensor]]):
    def __init__(self, tokens: torch.Tensor) -> None:
        self.tokens = tokens

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


def trained(compile: Compile, **arguments: Any) -> Built:
    import tempfile

    from transformers import Trainer, TrainingArguments

    model = llama()
    compiled = compile(model)

    def call(tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        with tempfile.TemporaryDirectory() as folder:
            given = TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=4,
                num_train_epochs=1,
                learning_rate=1e-3,
                optim="adamw_torch",
                save_strategy="no",
                report_to=[],
                disable_tqdm=True,
                logging_strategy="no",
                use_cpu=True,
                **arguments,
            )
            Trainer(model=compiled, args=given, train_dataset=Texts(tokens)).train()
        return {name: p.detach() for name, p in model.named_parameters()}

    return Built(call, lambda n: {"tokens": integers(n, 250, 32, 24) + 2}, (model,))


@program("transformers", "`Trainer.train` of a compiled Llama, one epoch of 8 batches", trains=True)
def trainer(compile: Compile) -> Built:
    return trained(compile)


@program("transformers", "`Trainer.train` with gradient accumulation, clipping and warm-up", trains=True)
def trainer_accumulating(compile: Compile) -> Built:
    return trained(compile, gradient_accumulation_steps=2, max_grad_norm=0.5, warmup_steps=2, weight_decay=0.01)
