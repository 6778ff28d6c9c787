# SPDX-License-Identifier: Apache-2.0
"""Names of the fields that answers have: all, those of each answer itself, and of objects. scripts/gen-python writes this file."""

from typing import Dict, FrozenSet

FIELDS = frozenset("""
a aborted active active_blocks active_bytes adapter affected affected_bytes affected_count agree agrees
algbw_GBps alias aliases aligned all_seen all_source all_wait_in allocated_bytes allocator allowed alpha answer
api approx args argument arguments asked at_line average axis b backend bad_dur bad_lines balance base
base_model base_ns before_count before_max_ns before_mean_ns before_min_ns before_samples before_sum_ns
begin_ns below bins blocks busbw_GBps busy_ns by by_dtype by_rank by_role bytes bytes_per_rank bytes_read
bytes_with_digest candidates categories category cause cell_ns cells change_ns change_percent changed check
checkpoints checks checksum class code collectives comm_busy_ns comm_layer comm_resolution command commands
compare comparison complete completed components compute_busy_ns compute_percent concrete_args conj copied
copies copies_percent cost count counts cpu_offload culprits curr_module current_order_index cuts data
debug_level default depth detail deviations device device_free_bytes differing digest digests_from dim
dim_names divergence dropped dtype dtype_raw dtypes dumps dur_ns element_ranges element_stats elements emitted
empty end end_skew_ns enqueued entered entries epoch equal error errors even event events exceptions exit_1
exit_4 expected exposed_ns exposed_percent fail_on family features file filename files findings fingerprint
first_diff first_index first_rank first_record first_ts_ns fits fix flat_end flat_offset flat_start flattened
format forwards found fqn fqns frames from fsdp fully_sharded gaps gather_exposed_ns gather_ns gathers gets
global_ranks globals gpu_stopped group group_name group_size groups growth handle handle_state handles
handles_post_forward_order handles_pre_forward_order heads help hint holes host host_comm_busy_ns how hybrid id
idle idle_causes idle_ns idle_percent index inf inferred input input_dtypes input_sizes inputs interrupted
is_padding item_length item_offset items iter iteration kernel kernel_classes kernels key kind lane
largest_free_bytes last last_end_ns last_rank launch launches launches_without_kernel layers layout left_out
length letter level levels libraries library likely_unit limit line lists loader loaders log_message longest_ns
looks_like loss matched matching max max_abs max_dur_ns max_ns max_rank max_rel mean mean_abs mean_bytes
mean_ns measure mem_busy_ns member memory memory_timeline mesh message method min min_ns mismatched missing
missing_dumps mixed_precision module module_forward_order module_forward_order_fqns module_to_param_usage_infos
modules msg name name_b64 name_raw names nan needs neg never_visited_fqns newest not_resharded note notes nth
number numel numel_in numel_out of offset offsets ok older omitted on_compute_stream on_disk only_a only_b oom
op opened optim_bytes optimizer optimizer_bytes options other_bytes others output_dtypes output_sizes outputs
over overflowed overlap_ns p50_ns p95_ns padding_bytes param param_bytes param_end param_forward_order
param_forward_order_fqns param_offset param_overrides param_start parameters parent part partial parts path
payload peak_bytes peak_event peak_reserved_bytes peak_stacks peak_time_us per_rank per_step percent pg phase
phases piece_conj piece_neg pieces placement placements plan pointers position post_forward_index
pre_forward_order_index prefetch prefetched prefetches prefix prefixes problem problems profile protocol
provenance quantizer ran ran_ms rank rank_from ranks ranks_seen read_amplification read_bytes reason reasons
recordings records recovered reduce_exposed_ns reduce_ns reduces refusals remote renamed repeatable replica
replicate_world_size request requested_bytes requires_grad reserved reserved_bytes reshards residual result
results resume_bytes retries role root rows rule rules run same same_as samples says scalar scale schema
schema_version scheme scope second_key segments selects sentence seq severity sha256 shape shard_dim
shard_numel_padded shard_offset shard_world_size sharded_numel sharding shared sizes skipped slug snapshots
source span_ns spans spread stacks start start_bytes start_skew_ns started state state_dict state_problems
states status std step step_from steps still_open stopped storage storage_bytes storage_offset stored_bytes
straggler strategies strategy streams strides stripped subject sum_ns summary synopsis target_modules tensor
tensor_parallel tensors text time_us timeline timeout_ms times_last title to took tool torch torch_guess total
tp tracer trailing_data_at training_state transfer_ns tree truncated ts_ns type types unaccounted unassigned
unchecked uneven unit units unknown unlisted unpadded_unsharded_numel unpaired unread_pickles unreadable
unsharded_numel unsupported unused use use_orig_params used_bytes value value_type values verdict verified
version versions visited_params wait_ns waiting_percent warn_status warning warnings waste watchdog way_out
weight_bytes weights_bytes what whole why words world world_size wrapper writer written written_module
written_name zero zero_point zeros
""".split())
ANSWERS: Dict[str, FrozenSet[str]] = {
    "audit": frozenset("""
        asked checkpoints checks complete counts loaders partial scope verdict whole
    """.split()),
    "commands": frozenset("""
        commands
    """.split()),
    "diff": frozenset("""
        changed modules only_a only_b renamed same
    """.split()),
    "export": frozenset("""
        bytes copied digest files left_out overflowed stripped tensors verified written
    """.split()),
    "flat": frozenset("""
        answer checkpoints units
    """.split()),
    "fqns": frozenset("""
        checkpoints modules names parameters
    """.split()),
    "hash": frozenset("""
        check digest files kind partial tensors
    """.split()),
    "info": frozenset("""
        adapter average balance below bytes check checkpoints counts files format kind names optimizer per_rank
        plan ranks_seen recordings sharding step values waste world_size
    """.split()),
    "latest": frozenset("""
        candidates newest pointers
    """.split()),
    "ls": frozenset("""
        checkpoints groups pieces tensors total values
    """.split()),
    "order": frozenset("""
        collectives divergence first_diff recordings
    """.split()),
    "pickle": frozenset("""
        streams
    """.split()),
    "replay": frozenset("""
        collectives comm_layer comm_resolution compare comparison cost dumps groups growth idle idle_causes
        kernel_classes kernels matching memory memory_timeline problems ranks steps timeline types unassigned
        units world_size
    """.split()),
    "reshard": frozenset("""
        from loaders not_resharded ranks read_amplification to uneven
    """.split()),
    "rules": frozenset("""
        rules
    """.split()),
    "show": frozenset("""
        items whole
    """.split()),
    "stats": frozenset("""
        groups tensors total
    """.split()),
    "tree": frozenset("""
        checkpoints modules units
    """.split()),
    "version": frozenset("""
        features libraries version
    """.split()),
}
OBJECTS: Dict[str, FrozenSet[str]] = {
    "finding": frozenset("""
        affected affected_bytes affected_count file fingerprint fix input length member message module offset
        rank rule severity slug tensor
    """.split()),
    "piece": frozenset("""
        file flat_end flat_start item_length item_offset length member method missing offset offsets param_end
        param_start piece_conj piece_neg rank replica sizes storage storage_bytes storage_offset strides
    """.split()),
    "tensor_item": frozenset("""
        alias aliases bytes class components conj device dtype dtype_raw element_ranges element_stats elements
        flattened inferred kind layout module name name_b64 name_raw neg numel param path pieces placement
        quantizer requires_grad role shape state states unit
    """.split()),
}
