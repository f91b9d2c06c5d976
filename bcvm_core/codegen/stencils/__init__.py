"""Fused elementwise kernels spliced from precompiled machine code, in a tenth of a millisecond.

Every primitive is compiled once per processor level into a *stencil*: a few instructions whose
operands live in fixed registers, ending in a jump to whatever follows. A fused kernel is stencils
laid end to end with offsets and constants patched. `kernel.kernel_for(graph)` is the door.
"""
