#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a distributed checkpoint of tensors cut into many pieces, with their bytes.

    bench/gen-dcp-pieces.py FOLDER [--mib=M] [--tensors=T] [--pieces=P] [--dim=D] [--run=BYTES] [--files=F]

T float32 matrices of M MiB together are each cut along dimension D into P pieces; cut along dimension 1 each
has BYTES of every row. The pieces lie in F files, as ranks write them. FOLDER/sum is the sum of all bytes, taken
as 64-bit words. Needs torch. Same arguments, same bytes.
"""
import argparse
import io
import os
import pickle

import numpy
import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo
from torch.distributed.checkpoint.metadata import (ChunkStorageMetadata, Metadata, MetadataIndex, TensorProperties,
                                                   TensorStorageMetadata)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--mib", type=int, default=2048)
    parser.add_argument("--tensors", type=int, default=1)
    parser.add_argument("--pieces", type=int, default=1024)
    parser.add_argument("--dim", type=int, default=1)
    parser.add_argument("--run", type=int, default=4096)
    parser.add_argument("--files", type=int, default=1)
    args = parser.parse_args()
    columns = args.run // 4 * (args.pieces if args.dim == 1 else 1)
    rows = (args.mib << 20) // args.tensors // 4 // columns
    sizes = [rows, columns]
    sizes[args.dim] //= args.pieces
    os.makedirs(args.folder)
    files = [open(os.path.join(args.folder, f"__{i}_0.distcp"), "wb") for i in range(args.files)]
    tensors, places, total = {}, {}, 0
    for t in range(args.tensors):
        name, chunks = "weight" if args.tensors == 1 else f"layers.{t}.weight", []
        for i in range(args.pieces):
            offsets = [0, 0]
            offsets[args.dim] = i * sizes[args.dim]
            piece = numpy.arange(t + i, t + i + sizes[0] * sizes[1], dtype=numpy.uint32).reshape(sizes)
            total += int(piece.reshape(-1).view(numpy.uint64).sum(dtype=numpy.uint64))
            item = io.BytesIO()
            torch.save(torch.from_numpy(piece.view(numpy.float32)), item)
            file = files[i * args.files // args.pieces]
            places[MetadataIndex(name, torch.Size(offsets), i)] = _StorageInfo(
                os.path.basename(file.name), file.tell(), len(item.getbuffer()))
            file.write(item.getbuffer())
            chunks.append(ChunkStorageMetadata(torch.Size(offsets), torch.Size(sizes)))
        tensors[name] = TensorStorageMetadata(TensorProperties(torch.float32), torch.Size([rows, columns]), chunks)
    with open(os.path.join(args.folder, ".metadata"), "wb") as f:
        pickle.dump(Metadata(tensors, None, places), f)
    with open(os.path.join(args.folder, "sum"), "w", encoding="ascii") as f:
        f.write(str(total & (1 << 64) - 1))
    for f in files:
        f.close()


if __name__ == "__main__":
    main()
