"""What can be trained: tasks that draw their own sentence pairs, and tasks that read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature

from minitransformer.tasks.copying import copying_task, reversing_task
from minitransformer.tasks.corpus import Corpus
from minitransformer.tasks.dates import dates_task
from minitransformer.tasks.drawn import DrawnTask, split
from minitransformer.tasks.multi30k import multi30k_task
from minitransformer.tasks.numbers import numbers_task
from minitransformer.tasks.pronunciation import pronunciation_task
from minitransformer.tasks.recipe import PATHS, Recipe
from minitransformer.tasks.shipped import recipe_file, recipe_names
from minitransformer.tasks.task import Task
from minitransformer.tasks.text import text_task

__all__ = [
    "PATHS",
    "TASKS",
    "Corpus",
    "DrawnTask",
    "Recipe",
    "Task",
    "build",
    "recipe_file",
    "recipe_names",
    "split",
]

TASKS: Mapping[str, Callable[..., Task]] = {
    "numbers": numbers_task,
    "copy": copying_task,
    "reverse": reversing_task,
    "dates": dates_task,
    "pronunciation": pronunciation_task,
    "text": text_task,
    "multi30k": multi30k_task,
}


def build(name: str, /, **options: str) -> Task:
    """Make a task by name.

    Parameters
    ----------
    name : str
        One of `TASKS`.
    **options : str
        What the task's function in `TASKS` takes.

    Returns
    -------
    Task
        The task.

    Raises
    ------
    ValueError
        If there is no such task, option or value; the message lists those that exist.
    """
    if name not in TASKS:
        raise ValueError(f"there is no task {name!r}; the tasks are {', '.join(TASKS)}")
    known = signature(TASKS[name]).parameters
    unknown = [option for option in options if option not in known]
    if unknown:
        offer = f"its options are {', '.join(known)}" if known else "it has none"
        raise ValueError(f"task {name} has no option {', '.join(map(repr, unknown))}; {offer}")
    return TASKS[name](**options)
