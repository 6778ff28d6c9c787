# SPDX-License-Identifier: Apache-2.0
"""The earlier name of fsdp_inspect.recorders, kept for one release."""

from fsdp_inspect.recorders import (
    __version__ as __version__,
    export_plan as export_plan,
    install as install,
    record_fx_order as record_fx_order,
    record_handles as record_handles,
    record_profiler as record_profiler,
    sharding_plan as sharding_plan,
)
