"""An array that is the input of two functions.

A gate: one function of x computes values, another how much of each passes.

    u = f(x)
    v = g(x)
    y = u * v         element-wise

f and g come with their backward functions: f_backward(x, d_u) returns what f
sends back to x if the gradient of u is d_u, and g_backward(x, d_v) likewise.
All arrays have the shape (T, D).

In a Transformer queries, keys and values are three such functions of one
array.
"""


def backward(x, d_y, f, f_backward, g, g_backward):
    """Return d_x."""
    u = f(x)
    v = g(x)
    # [solution
    # y = u * v
    d_u = d_y * v
    d_v = d_y * u
    # v = g(x), u = f(x)
    return f_backward(x, d_u) + g_backward(x, d_v)
    # solution] in the exercise:
    #: # TODO: y = u * v, then v = g(x) and u = f(x)
    #: return ...
