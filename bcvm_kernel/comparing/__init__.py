"""``%%bcvm --compare pynative,jit,numpy``: the same cell under several engines, from the same state, timed in turn, its values compared.

The cell itself runs as ever, through the VM. After it the state it started from is put back before each run of each engine
(`state`), the engines (`engines`, `graphs`) run it again with nothing shown, what they leave is held against what the cell left
(`values`), and at the end all is again as the cell left it. `result` shows the outcome.
"""
