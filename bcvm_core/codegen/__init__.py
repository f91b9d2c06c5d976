"""How kernels are made: algorithms to LLVM IR, machine code kept on disk, loaded without a compiler."""
