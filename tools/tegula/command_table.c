// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables: see command_table.h.
#include "tools/tegula/command_table.h"

const CommandInfo cli_commands[COMMAND_COUNT] = {
#define CMD(id, name, operands, least, most, doc) {name, operands, least, most, doc},
#include "tools/tegula/commands.def"
};

const OptionInfo cli_options[N_OPTIONS] = {
#define OPT(field, name, letter, commands, kind, placeholder, doc)                                 \
    {offsetof(Options, field), name, letter, commands, kind, placeholder, doc},
#include "tools/tegula/commands.def"
};

const char cli_arguments_help[] =
    "An argument is --arg NAME=SPEC, where SPEC is a source and views of it:\n"
    "\n"
    "  3  -1.5  inf  true            a scalar\n"
    "  none                          a null optional tensor\n"
    "  @file.npy  @file.png          an array from a file\n"
    "  same(x)                       the memory of argument x: in place\n"
    "  zeros(4,5)  ones(4,5)  full(4,5,value=7)  iota(4,5)\n"
    "  rand(4,5,seed=1,lo=-1,hi=1)   uniform; integers: 0 .. 9\n"
    "  randn(4,5,seed=1)             normal\n"
    "\n"
    "  :f32 :bf16 :i8 ...            element type (bits of u2 and u1 files for types NumPy lacks)\n"
    "  [1:5, ::-1, 3]                slices, as in NumPy\n"
    "  :transpose :permute(1,0,2)    other order of the axes\n"
    "  :expand(4,0)                  a new axis 0 of extent 4 and stride 0\n"
    "  :fortran                      column-major in memory\n"
    "  :spread(0,3000000000)         elements that far apart along axis 0\n"
    "\n"
    "A shell wants quotes around ( ) [ ]:\n"
    "\n"
    "  --arg x='rand(128,256):bf16' --arg w='@w.npy[::2]:transpose' --arg n=3\n"
    "\n"
    "A symmetric tensor is given as all shards: rand(2,128,64) is [128, 64] of two ranks.\n"
    "Outputs need no argument where their dims and type follow from the inputs.\n";
