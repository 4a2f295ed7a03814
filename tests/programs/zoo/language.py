"""Text models of transformers: encoders, decoders, both."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import torch
from torch import nn

from tests.programs.zoo.entry import Inputs, entry, integers

SIZES: dict[str, Any] = {
    "vocab_size": 199,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}


def quiet(config: Any) -> Any:
    """No dropout, no noise: a training step must be the same number twice."""
    for part in [config, *(v for v in vars(config).values() if hasattr(v, "to_dict"))]:
        for key, value in list(vars(part).items()):
            if isinstance(value, float) and ("drop" in key or "jitter" in key or key.startswith("mask_")):
                setattr(part, key, 0.0)
    return config


def transformer(model: str, config: str, **sizes: Any) -> nn.Module:
    transformers = importlib.import_module("transformers")
    torch.manual_seed(0)
    made = quiet(getattr(transformers, config)(**sizes))
    if getattr(made, "use_cache", None) is not None:
        made.use_cache = False
    return getattr(transformers, model)(made).eval()  # type: ignore[no-any-return]


def tokens(seed: int, length: int) -> dict[str, torch.Tensor]:
    return {"input_ids": integers(seed, 196, 2, length) + 3}


def masked_tokens(seed: int, length: int) -> dict[str, torch.Tensor]:
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, length // 2 :] = 0
    return {**tokens(seed, length), "attention_mask": mask}


def two_sided(seed: int, length: int) -> dict[str, torch.Tensor]:
    return {**tokens(seed, length), "decoder_input_ids": tokens(seed + 1, length // 2)["input_ids"]}


def hugging(
    name: str,
    model: str,
    config: str,
    inputs: Inputs = tokens,
    lengths: tuple[int, ...] = (16, 23),
    tests: tuple[str, ...] = (),
    trains: bool = True,
    **sizes: Any,
) -> None:
    """A model whose configuration is written out whole."""
    entry(name, functools.partial(transformer, model, config, **sizes), inputs, lengths, tests, trains)


def text(name: str, model: str, config: str, inputs: Inputs = tokens, **sizes: Any) -> None:
    """A model whose configuration has the usual names."""
    given = {key: sizes.pop(key) for key in ("lengths", "tests", "trains") if key in sizes}
    hugging(name, model, config, inputs, **given, **{**SIZES, **sizes})


ALL = ("inference", "dynamic", "training")

# ---- decoders --------------------------------------------------------------------------------------------------------
text("llama", "LlamaForCausalLM", "LlamaConfig", tests=(*ALL, "autocast", "bfloat16"), num_key_value_heads=2)
text("mistral", "MistralForCausalLM", "MistralConfig", num_key_value_heads=2, sliding_window=8)
text("qwen2", "Qwen2ForCausalLM", "Qwen2Config", num_key_value_heads=2)
text("qwen3", "Qwen3ForCausalLM", "Qwen3Config", num_key_value_heads=2, head_dim=16)
text("gemma", "GemmaForCausalLM", "GemmaConfig", num_key_value_heads=1, head_dim=16)
text("gemma2", "Gemma2ForCausalLM", "Gemma2Config", num_key_value_heads=2, head_dim=16, sliding_window=8)
text("gemma3", "Gemma3ForCausalLM", "Gemma3TextConfig", num_key_value_heads=2, head_dim=16, sliding_window=8)
text("phi", "PhiForCausalLM", "PhiConfig")
text("phi3", "Phi3ForCausalLM", "Phi3Config", num_key_value_heads=2)
text("olmo2", "Olmo2ForCausalLM", "Olmo2Config")
text("stablelm", "StableLmForCausalLM", "StableLmConfig", num_key_value_heads=2)
text("starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", num_key_value_heads=2)
text("cohere", "CohereForCausalLM", "CohereConfig")
text("granite", "GraniteForCausalLM", "GraniteConfig")
text("glm4", "Glm4ForCausalLM", "Glm4Config", num_key_value_heads=2, head_dim=16)
text("smollm3", "SmolLM3ForCausalLM", "SmolLM3Config", num_key_value_heads=2)
text("nemotron", "NemotronForCausalLM", "NemotronConfig", num_key_value_heads=2, head_dim=16)
text("persimmon", "PersimmonForCausalLM", "PersimmonConfig")
text("gpt_neox", "GPTNeoXForCausalLM", "GPTNeoXConfig")
text("biogpt", "BioGptForCausalLM", "BioGptConfig")
text("opt", "OPTForCausalLM", "OPTConfig", ffn_dim=128, word_embed_proj_dim=64)
text("mamba", "MambaForCausalLM", "MambaConfig", state_size=8)
text("falcon_mamba", "FalconMambaForCausalLM", "FalconMambaConfig", state_size=8)
text(
    "mamba2",
    "Mamba2ForCausalLM",
    "Mamba2Config",
    state_size=8,
    num_heads=8,
    head_dim=16,
    n_groups=2,
    chunk_size=8,
    expand=2,
)
text("rwkv", "RwkvForCausalLM", "RwkvConfig", attention_hidden_size=64, context_length=64)
text("recurrent_gemma", "RecurrentGemmaForCausalLM", "RecurrentGemmaConfig", num_key_value_heads=1, lru_width=64)
text(
    "mixtral", "MixtralForCausalLM", "MixtralConfig", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2
)
text(
    "qwen2_moe",
    "Qwen2MoeForCausalLM",
    "Qwen2MoeConfig",
    num_key_value_heads=2,
    num_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=32,
    shared_expert_intermediate_size=32,
)
text("olmoe", "OlmoeForCausalLM", "OlmoeConfig", num_experts=4, num_experts_per_tok=2)
text(
    "gpt_oss",
    "GptOssForCausalLM",
    "GptOssConfig",
    num_key_value_heads=2,
    head_dim=16,
    num_local_experts=4,
    num_experts_per_tok=2,
    sliding_window=8,
)
text(
    "deepseek_v3",
    "DeepseekV3ForCausalLM",
    "DeepseekV3Config",
    num_key_value_heads=4,
    n_routed_experts=4,
    num_experts_per_tok=2,
    n_group=2,
    topk_group=1,
    moe_intermediate_size=32,
    first_k_dense_replace=1,
    q_lora_rank=32,
    kv_lora_rank=16,
    qk_rope_head_dim=8,
    qk_nope_head_dim=8,
    v_head_dim=16,
)
text("bloom", "BloomForCausalLM", "BloomConfig", masked_tokens, n_layer=2, n_head=4)
text("falcon", "FalconForCausalLM", "FalconConfig")
text("falcon_alibi", "FalconForCausalLM", "FalconConfig", masked_tokens, alibi=True, new_decoder_architecture=True)
_GPT: dict[str, Any] = {"vocab_size": 199, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
hugging("gpt2", "GPT2LMHeadModel", "GPT2Config", tests=ALL, **_GPT)
hugging("gptj", "GPTJForCausalLM", "GPTJConfig", rotary_dim=8, **_GPT)
hugging("codegen", "CodeGenForCausalLM", "CodeGenConfig", rotary_dim=8, **_GPT)
hugging("bigcode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", **_GPT)
hugging("gpt", "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", **_GPT)
hugging(
    "ctrl", "CTRLLMHeadModel", "CTRLConfig", vocab_size=199, n_embd=64, dff=128, n_layer=2, n_head=4, n_positions=128
)
hugging("mpt", "MptForCausalLM", "MptConfig", vocab_size=199, d_model=64, n_heads=4, n_layers=2, max_seq_len=128)
hugging(
    "gpt_neo",
    "GPTNeoForCausalLM",
    "GPTNeoConfig",
    vocab_size=199,
    hidden_size=64,
    num_layers=2,
    num_heads=4,
    max_position_embeddings=128,
    attention_types=[[["global", "local"], 1]],
    window_size=8,
)
hugging(
    "xglm",
    "XGLMForCausalLM",
    "XGLMConfig",
    vocab_size=199,
    d_model=64,
    ffn_dim=128,
    num_layers=2,
    attention_heads=4,
    max_position_embeddings=128,
)

# ---- encoders --------------------------------------------------------------------------------------------------------
text("bert", "BertModel", "BertConfig", masked_tokens, tests=ALL)
text("bert_masked_lm", "BertForMaskedLM", "BertConfig", masked_tokens)
text("roberta", "RobertaModel", "RobertaConfig", masked_tokens)
text("albert", "AlbertModel", "AlbertConfig", masked_tokens, embedding_size=32)
text("electra", "ElectraModel", "ElectraConfig", masked_tokens, embedding_size=32)
text(
    "deberta",
    "DebertaV2Model",
    "DebertaV2Config",
    masked_tokens,
    relative_attention=True,
    position_buckets=8,
    pos_att_type=["p2c", "c2p"],
    norm_rel_ebd="layer_norm",
    share_att_key=True,
)
text("deberta_v1", "DebertaModel", "DebertaConfig", masked_tokens, relative_attention=True, pos_att_type=["p2c", "c2p"])
text("modernbert", "ModernBertModel", "ModernBertConfig", masked_tokens, local_attention=8)
text("mpnet", "MPNetModel", "MPNetConfig", masked_tokens)
text("roformer", "RoFormerModel", "RoFormerConfig", masked_tokens, embedding_size=64)
text("convbert", "ConvBertModel", "ConvBertConfig", masked_tokens, embedding_size=64, conv_kernel_size=3)
text("squeezebert", "SqueezeBertModel", "SqueezeBertConfig", masked_tokens, embedding_size=64)
text("mobilebert", "MobileBertModel", "MobileBertConfig", masked_tokens, embedding_size=32, intra_bottleneck_size=32)
text("rembert", "RemBertModel", "RemBertConfig", masked_tokens, input_embedding_size=32, output_embedding_size=32)
text("ibert", "IBertModel", "IBertConfig", masked_tokens)
text("esm", "EsmModel", "EsmConfig", masked_tokens, position_embedding_type="rotary", mask_token_id=4)
text("fnet", "FNetModel", "FNetConfig", tokens)
text("longformer", "LongformerModel", "LongformerConfig", masked_tokens, lengths=(16, 24), attention_window=8)
text("big_bird", "BigBirdModel", "BigBirdConfig", masked_tokens, attention_type="original_full")
text(
    "canine",
    "CanineModel",
    "CanineConfig",
    masked_tokens,
    lengths=(16, 24),
    local_transformer_stride=8,
    downsampling_rate=4,
)
text("ernie", "ErnieModel", "ErnieConfig", masked_tokens)
text("tapas", "TapasModel", "TapasConfig", masked_tokens)
text("xlm_roberta", "XLMRobertaForSequenceClassification", "XLMRobertaConfig", masked_tokens)
hugging(
    "distilbert",
    "DistilBertModel",
    "DistilBertConfig",
    masked_tokens,
    vocab_size=199,
    dim=64,
    hidden_dim=128,
    n_layers=2,
    n_heads=4,
)
hugging("xlnet", "XLNetModel", "XLNetConfig", vocab_size=199, d_model=64, n_layer=2, n_head=4, d_inner=128)
hugging("xlm", "XLMModel", "XLMConfig", masked_tokens, vocab_size=199, emb_dim=64, n_layers=2, n_heads=4)
hugging(
    "funnel",
    "FunnelModel",
    "FunnelConfig",
    masked_tokens,
    vocab_size=199,
    block_sizes=[1, 1],
    d_model=64,
    n_head=4,
    d_head=16,
    d_inner=128,
)

# ---- both ------------------------------------------------------------------------------------------------------------
_T5: dict[str, Any] = {
    "vocab_size": 199,
    "d_model": 64,
    "d_kv": 16,
    "d_ff": 128,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_BART: dict[str, Any] = {
    "vocab_size": 199,
    "d_model": 64,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 128,
    "decoder_ffn_dim": 128,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
}
hugging("t5", "T5ForConditionalGeneration", "T5Config", two_sided, (16, 24), ALL, **_T5)
hugging("umt5", "UMT5ForConditionalGeneration", "UMT5Config", two_sided, (16, 24), **_T5)
hugging(
    "switch",
    "SwitchTransformersForConditionalGeneration",
    "SwitchTransformersConfig",
    two_sided,
    (16, 24),
    **_T5,
    num_experts=4,
    num_decoder_layers=2,
    num_sparse_encoder_layers=1,
    num_sparse_decoder_layers=1,
)
hugging("bart", "BartForConditionalGeneration", "BartConfig", two_sided, (16, 24), **_BART)
hugging("mbart", "MBartForConditionalGeneration", "MBartConfig", two_sided, (16, 24), **_BART)
hugging("pegasus", "PegasusForConditionalGeneration", "PegasusConfig", two_sided, (16, 24), **_BART)
hugging("marian", "MarianMTModel", "MarianConfig", two_sided, (16, 24), **_BART, decoder_start_token_id=0)
hugging(
    "led",
    "LEDForConditionalGeneration",
    "LEDConfig",
    two_sided,
    (16, 24),
    **{k: v for k, v in _BART.items() if k != "max_position_embeddings"},
    attention_window=8,
    max_encoder_position_embeddings=128,
    max_decoder_position_embeddings=128,
)
hugging(
    "prophetnet",
    "ProphetNetForConditionalGeneration",
    "ProphetNetConfig",
    two_sided,
    (16, 24),
    vocab_size=199,
    hidden_size=64,
    num_encoder_layers=2,
    num_decoder_layers=2,
    num_encoder_attention_heads=4,
    num_decoder_attention_heads=4,
    encoder_ffn_dim=128,
    decoder_ffn_dim=128,
    max_position_embeddings=128,
    ngram=2,
)
