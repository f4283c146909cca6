"""The two circles of tests.

``python -m pytest`` runs the first circle: what tells anybody within two minutes that everything works. A path, or
``--all``, runs everything below it; ``--rest`` what the first circle leaves out.
"""

from pathlib import Path

SECOND_CIRCLE = {
    # whole folders: collections, kills, other programs, several processes, a GPU, the exercises' pages, the built site
    **dict.fromkeys(("checkers", "gallery", "gpu", "live", "mpi", "referee", "robustness", "site"), ""),
    # files: what takes long, starts many processes, or is about a detail
    "cli": "cli course learn_actions lengths no_gpu measure own_function processes terminal text write",
    "docs": "korean obligations",
    "interop": "broken_folders ctranslate2 decoders defaults huggingface llama2c marian refused to_ctranslate2 "
    "to_huggingface",
    "explorer": "page saved session",
    "learn": "answers assembly book child grading kinds_of_answers korean learn_command messages notebook own_parts "
    "trainings",
    "plots": "attention_maps",
    "measure": "changes heads paths positions recall table1 table3",
    "measure/speed": "account decoding gpu programs turns",
    "parallel": "shared_memory",
    "training": "continuing every_option",
    ".": "messages package pictures platforms",
}
"""The folders, and the files ``test_NAME.py`` of other folders, that a run without a path leaves out."""
LEFT_OUT = {
    Path(__file__).parent / folder / (f"test_{name}.py" if name else "")
    for folder, names in SECOND_CIRCLE.items()
    for name in names.split() or [""]
}
