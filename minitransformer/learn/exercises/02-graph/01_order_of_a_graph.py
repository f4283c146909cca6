"""An order for the backward pass.

A graph: parts[n] lists the nodes that node n was made of, twice if used twice.
The backward pass starts at the loss, and each node sends shares of gradient to
its parts. A node's turn comes only when all of its users have had theirs: its
own gradient is not complete before.

The loop below counts: waiting[n] is the number of uses of n that have not had
their turn. Now go through the graph a second time and count down. (With a
loop, not with recursion: the graph of a long sentence is deeper than Python's
stack.)
"""


def order(parts, loss):
    """Return a list of all nodes that loss was made of, itself first."""
    waiting, stack = {loss: 0}, [loss]
    while stack:
        for part in parts[stack.pop()]:
            if part not in waiting:
                waiting[part] = 0
                stack.append(part)
            waiting[part] += 1

    ready = [loss]
    found = []
    # [solution
    while ready:
        node = ready.pop()
        found.append(node)
        for part in parts[node]:
            waiting[part] -= 1
            if waiting[part] == 0:
                ready.append(part)
    # solution] in the exercise:
    #: # TODO: while a node is ready, note it, and let its parts wait for one less
    #: found = ...
    return found
