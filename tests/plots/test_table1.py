"""The picture of Table 1, from a result that is made up."""

import made_up

from minitransformer.apps.plots import paths_picture, save


def test_paths_are_drawn_from_their_own_result(tmp_path):
    result = made_up.table1()
    rows = {name: {key: row[key] for key in ("theory", "path", "graph")} for name, row in result["layers"].items()}
    only_paths = {"far": result["far"], "drawn": result["drawn"], "layers": rows}
    save(paths_picture(only_paths), tmp_path / "paths.png")
    assert (tmp_path / "paths.png").read_bytes().startswith(b"\x89PNG")
