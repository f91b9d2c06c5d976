"""Flattening: a call of nested Python objects (a model of Cells) becomes one straight-line Program.

The syntax tree of what is called is evaluated once with the operands at hand. What does not depend
on them (attributes, flags, containers, the callee of every call) is decided now, under guards; what
does becomes an instruction. Where Python looks at a value that depends on the operands (a branch on
a rank, a comparison), a CHECK holds the program to the path that was taken.
"""
