"""The tasks: some draw their own sentence pairs, others read them from files.

Each file of this folder that has tasks lists them in its ``TASKS``: by name, the function that makes each. There is no
other list: a new task is a new file.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from inspect import signature
from pkgutil import iter_modules

from minitransformer.public import public_names
from minitransformer.tasks.corpus import Corpus as Corpus
from minitransformer.tasks.corpus import TextCorpus as TextCorpus
from minitransformer.tasks.drawn import DrawnTask as DrawnTask
from minitransformer.tasks.drawn import split as split
from minitransformer.tasks.options import DataOptions as DataOptions
from minitransformer.tasks.shipped import recipe_file as recipe_file
from minitransformer.tasks.shipped import recipe_names as recipe_names
from minitransformer.tasks.task import Task as Task


def _find_tasks() -> Iterator[tuple[str, Callable[..., Task]]]:
    """Yield each task by its name; leave out those of a file that cannot be imported, with a warning."""
    for module in iter_modules(__path__):
        try:
            found = import_module(f"minitransformer.tasks.{module.name}")
        except Exception as error:
            text = f"tasks/{module.name}.py is left out: {type(error).__name__}: {error}; correct or remove the file"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        else:
            yield from getattr(found, "TASKS", {}).items()


TASKS: Mapping[str, Callable[..., Task]] = dict(sorted(_find_tasks()))


def build(name: str, /, **options: str) -> Task:
    """Make a task by name.

    Parameters
    ----------
    name : str
        One of `TASKS`.
    **options : str
        The arguments of the task's function in `TASKS`.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    ValueError
        If there is no such task, option or value; the message lists those that exist.

    Examples
    --------
    >>> mt.tasks.build("copy").title
    'copying strings of digits'
    >>> sorted(mt.tasks.TASKS)[:3]
    ['characters', 'copy', 'dates']
    """
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}; the tasks are {', '.join(TASKS)}")
    known = signature(TASKS[name]).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        offer = f"its options are {', '.join(known)}" if known else "it has none"
        raise ValueError(f"task {name} has no option {', '.join(map(repr, unknown))}; {offer}")
    return TASKS[name](**options)


__all__ = public_names(globals())
