"""What is done with the engine: commands, exercises, the explorer, other programs' models, experiments, pictures.

==============  ================================================================================
``cli/``        the command ``minitransformer``
``learn/``      exercises that check themselves, and models that learners' own functions train
``explorer/``   a trained model in the browser
``interop/``    models of other programs, in and out
``measure/``    experiments on the paper, on what came after it, and on speed
``plots/``      pictures
==============  ================================================================================

They use only what the other packages publish: a package's own files import deeper, these do not.
"""
