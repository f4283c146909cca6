"""Experiments on the paper's claims, each with a command of its own.

=====================  ==============================================================================
``layers.py``          the kinds of layer in Table 1
``table1.py``          Table 1: operations, sequential operations and path lengths, measured
``paths.py``           the graph of a layer, position by position: chains and paths
``recall.py``          which layers learn to repeat what they read L positions ago ...
``recall_model.py``    ... in these models
``extrapolation.py``   these models on longer sentences than in training
``positions.py``       kinds of positions on longer sentences than in training, and why they fail or not
``position_tasks.py``  ... on these tasks
``table3.py``          Table 3, small: one option of the model varied at a time
``report.py``          the results as text
=====================  ==============================================================================
"""
