"""A program that takes from Python what Windows lacks, imports every module, trains a model and translates with it."""

# ruff: noqa: E402, F401
# These libraries look at the system when they are loaded, so they are loaded before it changes its name.
import concurrent.futures
import http.server
import importlib.metadata
import multiprocessing.connection
import os
import pathlib
import pkgutil
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest.mock
import webbrowser

import filelock
import hypothesis
import matplotlib.pyplot
import numpy.testing
import pytest
import safetensors.numpy
import threadpoolctl
import tqdm

filelock.FileLock = lambda *_, **__: threading.RLock()  # its lock of Windows is there on Windows only
threadpoolctl.sys = types.SimpleNamespace(**vars(sys))  # its older versions look each time
for name in ("fcntl", "resource", "termios", "pwd", "grp", "pty"):
    sys.modules[name] = None
for name in ("O_NOFOLLOW", "O_NONBLOCK", "fork", "killpg", "sched_getaffinity", "setsid", "sysconf"):
    vars(os).pop(name, None)
for name in ("SIGALRM", "SIGHUP", "SIGKILL", "setitimer"):
    vars(signal).pop(name, None)
sys.platform = "win32"
real_open = os.open


def open_files_only(path, *rest, **options):
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return real_open(path, *rest, **options)


os.open = open_files_only

import minitransformer
from minitransformer.apps.cli import main
from minitransformer.apps.measure import machine

for module in pkgutil.walk_packages(minitransformer.__path__, "minitransformer."):
    if "exercises" not in module.name and not module.name.endswith(("__main__", ".healthy")):
        __import__(module.name)
assert machine.machine_memory() is None
machine.STATUS = pathlib.Path("nowhere")
assert machine.peak_memory() is None

small = "--d-model 8 --n-heads 2 --n-layers 1 --d-ff 8 --batch-tokens 64 --train-pairs 40 --held-out 4 --steps 2"
assert main(f"train copy {small} --out run".split()) == 0
assert main(["translate", "run", "12"]) == 0
print("\u2192 all is well")
