// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The start of programs. From 2.34 on glibc runs a program's constructors itself, and the start
// code that it links into programs relies on this. Before, a function of the program ran them. All
// glibcs still accept that function from programs that have one. See old.py.
typedef void Constructor(int argc, char **argv, char **environment);
typedef int Main(int argc, char **argv, char **environment);
extern Constructor *__init_array_start[], *__init_array_end[];
extern void _init(void);
extern int __real___libc_start_main(Main *program, int argc, char **argv, Constructor *init,
                                    void (*fini)(void), void (*end)(void), void *stack);
int __wrap___libc_start_main(Main *program, int argc, char **argv, Constructor *init,
                             void (*fini)(void), void (*end)(void), void *stack);

static void construct(int argc, char **argv, char **environment) {
    _init();
    for (Constructor **c = __init_array_start; c < __init_array_end; c++)
        (*c)(argc, argv, environment);
}

int __wrap___libc_start_main(Main *program, int argc, char **argv, Constructor *init,
                             void (*fini)(void), void (*end)(void), void *stack) {
    (void)init;
    return __real___libc_start_main(program, argc, argv, construct, fini, end, stack);
}
