"""A stand-in for CuPy that needs no GPU: NumPy inside, CuPy's manners outside.

Where NumPy is more lenient than CuPy, this is as strict: host and device never mix, nothing is converted without being
asked, results have no other order in memory than CuPy's, and what CuPy does not have is not there either. What CuPy
has is read from ``cupy.json``, which ``generate.py`` writes from an installed CuPy; the manners are written by hand.

====================  =================================================================================
``log.py``            copies between host and device, and indices that were wrapped, as they happen
``device_array.py``   the array
``library.py``        the functions, put together into a module that can take CuPy's place
``device.py``         the GPU as a report sees it
``generate.py``       asks the installed CuPy what it has
====================  =================================================================================

What it cannot show: speed, memory limits, kernels that fail to compile, how sums are rounded on a GPU, the order of
atomic additions, and which of two values wins that are assigned to one place.
"""
