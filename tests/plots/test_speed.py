"""The pictures of speed, from results that are made up."""

import made_up

from minitransformer.apps.plots import growth_curves, speed_bars


def test_texts_do_not_overlap():
    for figure in (
        speed_bars(made_up.result(("toy", "small", "base"), compiled=0.05)),
        growth_curves(made_up.growth()),
    ):
        figure.draw_without_rendering()
        for axes in figure.axes:
            labels = [text for text in [*axes.texts, *axes.get_xticklabels()] if text.get_text()]
            boxes = [text.get_window_extent() for text in labels]
            for i, box in enumerate(boxes):
                assert not [other for other in boxes[:i] if box.overlaps(other)], labels[i].get_text()
