"""Experiments on the paper's claims, on what came after it, and on speed: the command ``measure``.

=====================  ===========================================================================
``layers.py``          the kinds of layer in Table 1, and how their operations are counted
``table1.py``          Table 1: operations, sequential operations and path lengths, measured
``costs.py``           what the paper says about costs beside the table: counted, and timed in turns
``paths.py``           the graph of a layer, position by position: chains and paths
``recall.py``          which layers learn to repeat what they read L positions ago, also in longer sentences ...
``recall_model.py``    ... in these models
``positions.py``       kinds of positions on longer sentences than in training, and why they fail or not
``position_tasks.py``  ... on these tasks
``table3.py``          Table 3, small: one option of the model varied at a time
``changes.py``         what came after the paper, one change at a time
``heads.py``           what attention heads do, and how different they are
``speed/``             a training step and decoding, beside PyTorch
=====================  ===========================================================================

They share:

=====================  ===========================================================================
``seeds.py``           repetition over seeds, and training each variation with every seed
``means.py``           comparisons: means and differences with intervals, ratios of programs in turns
``powers.py``          slopes and exponents, fitted
``machine.py``         a description of the machine, and its memory
``tables.py``          tables and paragraphs that fit the terminal
``report.py``          the results as text
``pictures/``          the results as pictures
=====================  ===========================================================================
"""
