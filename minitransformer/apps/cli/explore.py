"""Take a trained model apart in the browser.

It shows every value and gradient of a sentence with its formula and source line, checks gradients by finite
differences, and lets you change entries, heads, layers and masks. The server listens on this machine only, at a secret
address. Ctrl-C stops it. With --save, everything about the sentence is written to one HTML file instead.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import webbrowser
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from minitransformer.apps.cli.errors import UsageError
from minitransformer.apps.cli.options import refusing
from minitransformer.apps.cli.output_paths import check_writable, writing
from minitransformer.apps.cli.parts_of_run import with_parts_of_run
from minitransformer.apps.cli.run_options import load_chosen
from minitransformer.arrays import blas
from minitransformer.data import replace_halves
from minitransformer.runs import RunFolder

if TYPE_CHECKING:
    from minitransformer.apps.explorer import Session


@with_parts_of_run()
def run(args: argparse.Namespace) -> int:
    """Open the run; write the file, or answer the browser until Ctrl-C."""
    from minitransformer.apps.explorer import RequestError, Session  # loads the server

    text = " ".join(args.text)
    if hasattr(args, "save"):
        if args.no_browser or hasattr(args, "port"):
            raise UsageError("--save starts no server; leave out --port and --no-browser")
        check_writable(args, "save")
    session = Session(load_chosen(args, translates=None), RunFolder(args.run))
    with blas.threads(1):  # the matrices of one sentence are small: several threads would wait for each other
        with refusing(args, RequestError):
            if text:
                session.check_text(text)
            if hasattr(args, "save"):
                return _save(session, text, args.save)
        return _serve(session, text, args)


def _save(session: Session, text: str, file: Path) -> int:
    from minitransformer.apps.explorer import left_out, save

    text = text or next(iter(session.model()["examples"]), "")
    if not text:
        raise UsageError("the run has no held-out texts to choose from; give a text")
    with writing(file) as path:
        save(path, session, [text], progress=_draw_progress)
        size = path.stat().st_size
    answer = session.translate({"text": text})
    print(f"{text}  ->  {answer['text']}" if answer["source"] else answer["text"], *answer["notes"], sep="\n")
    print(f"the file is {file} ({size / 1e6:.1f} MB); open it in a browser")
    if note := left_out(session):
        print(note)
    return 0


def _draw_progress(gradients: list[Any]) -> Iterable[Any]:
    """Yield the gradients, and draw a progress bar in a terminal if their differences take more than a second."""
    from tqdm import tqdm

    return tqdm(gradients, "central differences", unit="gradient", delay=1, leave=False, disable=None)


def _serve(session: Session, text: str, args: argparse.Namespace) -> int:
    from minitransformer.apps.explorer import Explorer, PortError

    with refusing(args, PortError):
        server = Explorer(session, getattr(args, "port", None))
    with server:
        address = server.address + (f"#text={quote(replace_halves(text), safe='')}" if text else "")
        print(f"The explorer is at {address}\nCtrl-C stops it.", flush=True)
        if not args.no_browser:
            with suppress(RuntimeError):  # the system may refuse another thread
                threading.Thread(target=_open_browser, args=(address,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
    print("\nThe explorer has stopped.")
    return 0


def _open_browser(address: str) -> None:
    """Open the address in a browser with windows; one that runs in this terminal would take it over."""
    windows = sys.platform in ("win32", "darwin") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
    try:
        opened = windows and webbrowser.open(address)
    except (webbrowser.Error, OSError, ValueError):  # BROWSER may hold a quotation mark without its second
        opened = False
    if not opened:
        print("No browser could be opened; open the address yourself.", flush=True)
