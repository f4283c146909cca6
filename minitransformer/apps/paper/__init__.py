"""Experiments on the paper's claims and on what came after, each with a command of its own.

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
``variations.py``      trains a variation of a model, for both of these
``heads.py``           what attention heads do, and how different they are
``means.py``           means of a few measurements and their differences, with intervals
``report.py``          the results as text
=====================  ===========================================================================
"""
