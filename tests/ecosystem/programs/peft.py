"""peft: adapters on a small Llama."""

from __future__ import annotations

import torch

from tests.ecosystem.program import Built, Compile, integers, program
from tests.ecosystem.programs.transformers import llama


@program("peft", "LoRA model, inference")
def lora(compile: Compile) -> Built:
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], lora_dropout=0.05, init_lora_weights=False
    )
    model = get_peft_model(llama(), config).eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(input_ids: torch.Tensor) -> torch.Tensor:
        return compiled(input_ids=input_ids).logits

    return Built(call, lambda n: {"input_ids": integers(n, 256, 2, 32)}, (model,))


@program("peft", "prefix tuning, inference")
def prefix_tuning(compile: Compile) -> Built:
    from peft import PrefixTuningConfig, TaskType, get_peft_model

    model = get_peft_model(llama(), PrefixTuningConfig(task_type=TaskType.CAUSAL_LM, num_virtual_tokens=8)).eval()
    compiled = compile(model)

    @torch.no_grad()
    def call(input_ids: torch.Tensor) -> torch.Tensor:
        return compiled(input_ids=input_ids, attention_mask=torch.ones_like(input_ids)).logits

    return Built(call, lambda n: {"input_ids": integers(n, 256, 2, 32)}, (model,))


@program("peft", "LoRA training step, AdamW", trains=True)
def lora_training(compile: Compile) -> Built:
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"])
    model = get_peft_model(llama(), config)
    compiled = compile(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def call(input_ids: torch.Tensor) -> torch.Tensor:
        loss = compiled(input_ids=input_ids, labels=input_ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return Built(call, lambda n: {"input_ids": integers(n, 256, 2, 32)}, (model,))


@program("peft", "LoRA with `modules_to_save` and a bias, gradients of two batches accumulated, AdamW", trains=True)
def lora_accumulated(compile: Compile) -> Built:
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM, r=4, target_modules="all-linear", bias="lora_only", modules_to_save=["lm_head"]
    )
    model = get_peft_model(llama(), config)
    compiled = compile(model)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)

    def call(input_ids: torch.Tensor) -> list[torch.Tensor]:
        losses = []
        for part in input_ids.chunk(2):
            losses.append(compiled(input_ids=part, labels=part).loss / 2)
            losses[-1].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return losses

    return Built(call, lambda n: {"input_ids": integers(n, 256, 4, 32)}, (model,))
