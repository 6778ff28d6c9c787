# SPDX-License-Identifier: Apache-2.0
"""Sharding plans."""

import json

from .files import Folder, sample


@sample
def plans_with_odd_meshes_units_and_shapes(folder: Folder):
    def write(title, mesh="", params=""):
        text = json.dumps({
            "format": "fsdp-plan", "version": 1, "world_size": 4,
            "modules": [{"name": "", "class": "Net"}, {"name": "a", "class": "Linear"}],
            "parameters": [{"fqn": name, "shape": shape, "dtype": "float32"}
                           for name, shape in [("a.w", [2, 5]), ("a.b", []), ("a.c", [3])]],
            "units": [{"module": "a", "api": "fsdp2", "strategy": "FULL_SHARD", "shard_world_size": 4, "params": []}],
        })
        text = text.replace('"modules"', f'{mesh}"modules"', 1).replace('"params": []', f'"params": [{params}]')
        folder.write(f"{len(titles):02}/p.json", text)
        titles.append(title)

    titles = []
    ones = [1] * 7
    for shape in [[], [0], [-1], [1], ["2"], [2.5], 3, None, [2, 2], [*ones, 2], [*ones, 1, 1], [2**24], [2**24 + 1],
                  [4096, 4096], [4096, 4097], [2**32, 2**32]]:
        mesh = json.dumps({"shape": shape}, separators=(",", ":"))
        write(f'"mesh":{mesh},', f'"mesh":{mesh},')
    for names in [["a", "b"], ["a"], ["a", "b", "c"], ["a", 1], "a"]:
        mesh = json.dumps({"shape": [2, 2], "dim_names": names}, separators=(",", ":"))
        write(f'"mesh":{mesh},', f'"mesh":{mesh},')
    write('"mesh":[2],', '"mesh":[2],')
    for name, shapes in [("a.w", [[2, 5], [5, 2], [2], [2, 5, 1], [], [2, -5], ["2", 5], 7, [2**63 - 1, 2]]),
                         ("a.b", [[], [1]]), ("a.c", [[3], [4]])]:
        for shape in shapes:
            write(f"-- {name} {json.dumps(shape, separators=(',', ':'))}", params=json.dumps(
                {"fqn": name, "shape": shape, "dtype": "float32", "placements": ["Shard(dim=0)"]}))
    folder.write("list", *(f"{number:02} {title}\n" for number, title in enumerate(titles)))
