"""A trained model, taken apart in the browser.

==============  ================================================================================================
``session.py``  a trained model; each request is a method with JSON in and JSON out
``server.py``   the server on this machine
``saved.py``    one file with everything about a sentence, which needs neither Python nor a network
``bundle.py``   the files of ``page/`` in one
``body.py``     requests, read strictly
``numbers.py``  arrays as JSON
``growth.py``   how weights, gradients and attention change over the checkpoints of a training
``limits.py``   limits of memory and time
==============  ================================================================================================
"""

from minitransformer.apps.explorer.body import RequestError
from minitransformer.apps.explorer.saved import left_out, save
from minitransformer.apps.explorer.server import Explorer, PortError
from minitransformer.apps.explorer.session import Session

__all__ = ["Explorer", "PortError", "RequestError", "Session", "left_out", "save"]
