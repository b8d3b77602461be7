"""Examples of each command, shown at the end of its ``--help``."""

from __future__ import annotations

__all__ = ["EXAMPLES"]

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": ("fastanchors demo",),
    "build": ("fastanchors build counts.mtx.gz counts.store --column-names genes.txt",),
    "info": ("fastanchors info counts.store",),
    "verify": ("fastanchors verify counts.store",),
    "update": ("echo '17 4 2.5' | fastanchors update counts.store",),
    "append": ("fastanchors append counts.store more.npy",),
    "seek": (
        "fastanchors seek counts.store -k 10",
        "fastanchors seek table.csv -k auto --out anchors.npz",
        "fastanchors seek table.csv -k 4 --header --names-column id",
    ),
    "encode": (
        "fastanchors encode counts.store anchors.json -o weights.npy",
        "fastanchors encode table.csv 3,17,5 -o weights.csv",
        "fastanchors encode next_scene.hdr unmixed/endmembers.csv -o abundances.tif --sum-to-one",
    ),
    "report": (
        "fastanchors report counts.store -k 10 -o report.html",
        "fastanchors report anchors.json -o report.html",
    ),
    "explore": ("fastanchors explore counts.store", "fastanchors explore pixels.npy --image 95,120 --browser"),
    "bench": ("fastanchors bench", "fastanchors bench --rows 200000 --columns 500 -k 20"),
    "completion": ('eval "$(fastanchors completion bash)"',),
    "topics": ("fastanchors topics corpus/ -k 20",),
    "representatives": (
        "fastanchors representatives table.csv -k 5",
        "fastanchors representatives x.npy -k 5 -o weights.csv",
    ),
    "recommend": ("fastanchors recommend ratings.csv --user 7 -n 10",),
    "unmix": ("fastanchors unmix scene.mat -k 4 -o unmixed/", "fastanchors unmix scene.hdr -k 5 --geotiff"),
}
