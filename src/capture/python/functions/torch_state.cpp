// Functions that read or set torch's state, and torch's classes that are neither tensors nor modules.
#include "capture/python/functions/call_handlers.h"
#include "capture/python/functions/rows.h"

namespace vesta::capture {
namespace {

constexpr ClassRow kTorchStateClasses[] = {
    {"torch", "Size device dtype finfo iinfo layout memory_format"},
    {"torch._C", "DisableTorchFunction DisableTorchFunctionSubclass _DisableFuncTorch"},
};

constexpr FunctionRow kTorchStateFunctions[] = {
    {"torch", "Size", "numel", Effect::Reads},
    {"torch", "dtype", "to_complex to_real", Effect::Reads},
    // State that TorchState holds.
    {"torch._C", "",
     "_set_grad_enabled is_grad_enabled is_inference_mode_enabled _get_default_device get_default_dtype "
     "_get_tracing_state _is_tracing get_num_threads",
     Effect::Torch},
    {"torch._C", "",
     "_is_any_autocast_enabled _is_autocast_available autocast_decrement_nesting autocast_increment_nesting "
     "clear_autocast_cache get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype is_autocast_cache_enabled "
     "is_autocast_cpu_enabled is_autocast_enabled set_autocast_cache_enabled set_autocast_cpu_dtype "
     "set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype",
     Effect::Torch},
    {"torch._C", "",
     "_disabled_torch_function_impl _get_function_stack_at _has_torch_function _has_torch_function_unary "
     "_has_torch_function_variadic _is_torch_function_all_disabled _is_torch_function_enabled "
     "_is_torch_function_mode_enabled _len_torch_dispatch_stack _len_torch_function_stack "
     "_pop_torch_function_stack _push_on_torch_function_stack",
     Effect::Torch},
    {"torch._C", "", "_peek_should_skip_torch_function", Effect::Torch, since_torch(13)},
    {"torch._C", "",
     "_get_deterministic_algorithms _get_deterministic_algorithms_warn_only "
     "_get_deterministic_fill_uninitialized_memory",
     Effect::Torch},
    {"torch._C", "", "_group_tensors_by_device_and_dtype", Effect::Tensors},
    // Facts about the build, the machine, an operator or a tensor.
    {"torch._C", "",
     "_accelerator_getAccelerator _dispatch_has_kernel_for_dispatch_key _get_accelerator _get_max_operator_version "
     "_get_privateuse1_backend_name _has_storage _infer_size _is_alias_of _is_cached_tensor _log_api_usage_metadata "
     "_log_api_usage_once _overlaps _select_conv_backend",
     Effect::Torch},
    {"torch._C", "", "_cuda_getDeviceCount _cuda_isInBadFork", Effect::Torch, in_cuda_builds()},
    // Settings: each is True or False, and a guard asks again.
    {"torch._C",
     "",
     "_get_cublas_allow_tf32 _get_cudnn_allow_tf32 _get_cudnn_benchmark _get_cudnn_deterministic _get_cudnn_enabled "
     "_get_cudnn_sdp_enabled _get_flash_sdp_enabled _get_math_sdp_allow_fp16_bf16_reduction _get_math_sdp_enabled "
     "_get_mem_efficient_sdp_enabled _get_mkldnn_enabled _get_nnpack_enabled _get_onednn_allow_tf32 "
     "_get_overrideable_sdp_enabled",
     {Effect::Reads, handlers::torch_setting}},
    {"torch._C", "", "_cuda_isCurrentStreamCapturing", {Effect::Reads, handlers::torch_setting}, in_cuda_builds()},
    {"torch._C", "", "_are_functorch_transforms_active", Effect::Torch},
    {"torch._C._functorch", "",
     "_grad_decrement_nesting _grad_increment_nesting _jvp_decrement_nesting _jvp_increment_nesting _remove_batch_dim "
     "_unwrap_batched _unwrap_for_grad _vmap_decrement_nesting _vmap_increment_nesting get_dynamic_layer_stack_depth "
     "get_inplace_requires_grad_allowed get_unwrapped is_batchedtensor is_functorch_wrapped_tensor "
     "is_gradtrackingtensor maybe_current_level maybe_get_bdim maybe_get_level peek_interpreter_stack "
     "set_inplace_requires_grad_allowed unwrap_if_dead",
     Effect::Torch},
    {"torch._C._functorch", "", "_add_batch_dim _wrap_for_grad", {Effect::Torch, handlers::wrap_for_transform}},
    {"torch._C._autograd", "",
     "_saved_tensors_hooks_disable _saved_tensors_hooks_enable _saved_tensors_hooks_get_disabled_error_message",
     Effect::Torch},
    {"torch._C", "", "_vmapmode_decrement_nesting _vmapmode_increment_nesting", Effect::Torch},
    {"torch._C", "", "_enter_dual_level", {Effect::Torch, handlers::enter_dual_level}},
    {"torch._C", "", "_exit_dual_level _is_fwd_grad_enabled _set_fwd_grad_enabled", Effect::Torch},
    {"torch._C", "_FunctionBase", "apply", {Effect::Reads, handlers::autograd_apply}},
    {"torch._C", "_FunctionBase", "needs_input_grad saved_tensors", Effect::Torch},
    {"torch._C", "_FunctionBase", "name", Effect::Reads},
    {"torch._C", "_FunctionBase", "register_hook register_prehook", {Effect::Unknown, handlers::register_node_hook}},
};

}  // namespace

Family torch_state_functions() { return {kTorchStateClasses, kTorchStateFunctions}; }

}  // namespace vesta::capture
