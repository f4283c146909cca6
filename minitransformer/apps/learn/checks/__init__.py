"""The checks of the exercises: a function for each, in files by subject.

A function's parameters are the names that it reads from the learner's file. It raises ``Wrong`` if an answer is not
right, through the functions of ``verdict``; otherwise it may return a remark. Sizes are distinct, numbers random but
always the same, gradients of results random and not uniform.
"""
