/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The glossary: words that messages and manual use, each in one line.
 */
#include "front/help-pages.h"

const char help_words[] =
	"  rank            a process of the training run; ranks count from 0\n"
	"  world size      how many ranks the run had\n"
	"  mesh            ranks in a grid with named dimensions: dp_shard=8 x tp=2\n"
	"  FSDP1           FullyShardedDataParallel: shards flat parameters\n"
	"  FSDP2           fully_shard: shards each parameter by itself, as a DTensor\n"
	"  HSDP            sharded within a group of ranks, copied from group to group\n"
	"  unit            modules whose parameters FSDP gathers and shards together\n"
	"  flat parameter  of FSDP1: all parameters of a unit, one behind the other\n"
	"  shard           what one rank holds of a tensor\n"
	"  piece           a part of a tensor that lies in one file: a box, or a run\n"
	"  placement       how a tensor lies on a mesh: Shard(dim=0), Replicate()\n"
	"  state dict      what is saved: a map from names to tensors and values\n"
	"  FULL, SHARDED   a state dict of whole tensors, or of shards with their shape\n"
	"  LOCAL           a state dict of shards of flat parameters\n"
	"  DCP             torch.distributed.checkpoint: .metadata and .distcp files\n"
	"  FQN             fully qualified name of a parameter: layers.0.attn.wq.weight\n"
	"  role            parameter, buffer, state of an optimizer, or other\n"
	"  value           an entry that is not a tensor: a step, a learning rate, a list\n"
	"  metadata        bytes that are not tensors: headers, pickles, directories\n"
	"  plan            a JSON file with classes and units, beside a checkpoint\n";
