"""A topological order for the backward pass.

In a graph, parts[n] lists the nodes from which node n is computed, twice if
used twice. The backward pass starts at the loss, and each node sends shares of
gradient to its parts. A node comes after all of its users, because only then
is its own gradient complete.

The loop below counts the uses: waiting[n] is how many uses of n have not sent
their share yet. Now go through the graph a second time and count down. (Use a
loop, not recursion: the graph of a long sentence is deeper than Python's
stack.)
"""


def order(parts, loss):
    """Return all nodes from which loss is computed, loss itself first."""
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
    #: # TODO: while a node is ready, append it to found, count down its parts
    #: found = ...
    return found
