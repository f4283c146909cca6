"""How many multiplications a layer needs, as in Table 1 of the paper.

A layer reads n positions of D features and returns as many.

    self-attention    the product of each query with each key, and for each
                      query the sum of all values, weighted
    recurrent         h_t = tanh(x_t W + h_(t-1) U) at each position, where
                      W and U are (D, D)
    convolution       at each position the inputs at k positions, each times
                      its own (D, D) matrix
    restricted        self-attention in which a query sees itself and r
    self-attention    positions on either side

A product of two vectors of D features is D multiplications. Count exactly as
described: without the projections to queries, keys and values, without tanh
and softmax, and as if no position were missing at the ends of the sentence.
"""


def multiplications(n, D, k, r):
    """Return four numbers, for the four layers in this order."""
    # [solution
    attention = 2 * n * n * D
    recurrent = 2 * n * D * D
    convolution = k * n * D * D
    restricted = 2 * n * (2 * r + 1) * D
    # solution] in the exercise:
    #: attention = recurrent = convolution = restricted = ...  # TODO
    return attention, recurrent, convolution, restricted
