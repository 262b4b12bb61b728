// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks that cannot meet: options without sense, ranks that do not fit each other, peers that are
// no ranks, places that are taken. Each rank gets a status and the reason, and a rank that can meet
// goes on.
#include "runtime/comm/comm.h"
#include "runtime/comm/comm_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LONG_MS = 600000, SHORT_MS = 300, HEAP = 1 << 20, MOST = 3 };

static char folder[] = "/tmp/tegula-create-XXXXXX";

static tg_comm_options options_of(const char *engine, const char *meet, int rank, int ranks) {
    return (tg_comm_options){.size = sizeof(tg_comm_options),
                             .engine = engine,
                             .meet = meet,
                             .rank = rank,
                             .ranks = ranks,
                             .device = TG_COMM_CPU,
                             .heap = HEAP,
                             .timeout_ms = LONG_MS};
}

static void expect_refusal(const tg_comm_options *o, tg_status status, const char *text) {
    tg_comm *c = (tg_comm *)1;
    assert_int_equal(tg_comm_create(o, &c), status);
    assert_null(c);
    if (!strstr(tg_last_error(), text)) fail_msg("'%s' is not in: %s", text, tg_last_error());
}

/* ---- ranks that are processes ---------------------------------------------------------------- */

/// The answer that a rank got, in memory that it shares with the test.
typedef struct Told {
    tg_status status;
    char text[512];
} Told;

static Told *told;
static pid_t ranks[MOST];

static void start(int i, const tg_comm_options *o) {
    told[i] = (Told){.status = TG_ERROR_INTERNAL, .text = "it ended"};
    fflush(NULL);
    ranks[i] = fork();
    assert_true(ranks[i] >= 0);
    if (ranks[i]) return;
    tg_comm *c;
    tg_status status = tg_comm_create(o, &c);
    snprintf(told[i].text, sizeof told[i].text, "%s", status ? tg_last_error() : "");
    told[i].status = status;
    if (!status) tg_comm_destroy(c);
    _exit(0);
}

static void end(int i) {
    assert_int_equal(waitpid(ranks[i], NULL, 0), ranks[i]);
}

static void expect_told(int i, tg_status status, const char *text) {
    if (told[i].status != status || !strstr(told[i].text, text))
        fail_msg("rank process %d: %s: %s", i, tg_status_name(told[i].status), told[i].text);
}

/// A path, or a free port of the loopback address.
static const char *place(const char *name, bool port) {
    static char out[2][108];
    static int next;
    char *at = out[next++ % 2];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    snprintf(at, sizeof out[0], "%s/%s", folder, name);
    if (!port) return at;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &n), 0);
    close(s);
    snprintf(at, sizeof out[0], "127.0.0.1:%d", ntohs(a.sin_port));
    return at;
}

static void expect_error(tg_status status, const char *text) {
    assert_int_equal(status, TG_ERROR_ARGUMENT);
    if (!strstr(tg_last_error(), text)) fail_msg("'%s' is not in: %s", text, tg_last_error());
}

/* ---- options --------------------------------------------------------------------------------- */

static void options(void **state) {
    (void)state;
    static const struct {
        tg_comm_options o;
        const char *text;
    } cases[] = {
        {{.size = 4}, "size must be sizeof(tg_comm_options)"},
        {{.engine = "threads", .timeout_ms = -1}, "tg_comm_create: timeout_ms is -1"},
        {{.engine = "smoke"}, "no engine 'smoke'; threads, processes, openshmem and nvshmem"},
        {{.engine = "threads", .device = -3}, "tg_comm_create: there is no device -3"},
        {{.engine = "nvshmem"}, "ranks of nvshmem have a GPU each; `device` says which"},
        {{.engine = "threads", .meet = "x"}, "the number of ranks is unknown"},
        {{.engine = "threads", .meet = "x", .ranks = 65}, "65 ranks; 1 to 64 can meet"},
        {{.engine = "threads", .meet = "x", .ranks = -1}, "-1 ranks; 1 to 64 can meet"},
        {{.engine = "threads", .meet = "x", .ranks = 2, .rank = -1},
         "the number of this rank (of 2) is unknown"},
        {{.engine = "threads", .meet = "x", .ranks = 2, .rank = 2},
         "tg_comm_create: rank 2 of 2 ranks"},
        {{.engine = "threads", .meet = "", .ranks = 2}, "ranks have no place to meet"},
        {{.engine = "processes", .ranks = 2}, "ranks have no place to meet"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tg_comm_options o = cases[i].o;
        if (!o.size) o.size = sizeof o;
        if (!o.device) o.device = TG_COMM_CPU;
        expect_refusal(&o, TG_ERROR_ARGUMENT, cases[i].text);
    }
    expect_refusal(NULL, TG_ERROR_ARGUMENT, "no engine: name one, set TG_COMM");
    expect_error(tg_comm_create(NULL, NULL), "tg_comm_create: out is NULL");
    expect_error(tg_comm_barrier(NULL), "tg_comm_barrier: comm is NULL");
    DLDataType f32 = {kDLFloat, 32, 1};
    DLTensor t;
    expect_error(tg_sym_alloc(NULL, f32, 0, NULL, 0, &t), "tg_sym_alloc: comm is NULL");
    expect_error(tg_sym_free(NULL, &t), "tg_sym_free: NULL");
    assert_int_equal(tg_comm_rank(NULL), 0);
    assert_int_equal(tg_comm_ranks(NULL), 1);
    tg_comm_destroy(NULL);
}

/// Variables that hold no number of their range.
static void variables(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"TG_RANK", "one", "TG_RANK=one: this is not a number from 0 to 63"},
        {"TG_RANK", "64", "TG_RANK=64: this is not a number from 0 to 63"},
        {"TG_RANKS", "2 ", "TG_RANKS=2 : this is not a number from 0 to 64"},
        {"TG_COMM_HEAP", "-1", "TG_COMM_HEAP=-1: this is not a number from 0 to "},
        {"TG_COMM_HEAP", "99999999999999999999", "this is not a number from 0 to "},
        {"TG_COMM_TIMEOUT_MS", "1e3", "TG_COMM_TIMEOUT_MS=1e3: this is not a number from 0 to 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        setenv(cases[i][0], cases[i][1], 1);
        expect_refusal(NULL, TG_ERROR_ARGUMENT, cases[i][2]);
        unsetenv(cases[i][0]);
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

/// Comes again if the place was another group's at the moment.
static void *be_first(void *arg) {
    tg_comm *c;
    tg_status status;
    do status = tg_comm_create(arg, &c);
    while (status == TG_ERROR_CONTRACT);
    if (!status) tg_comm_destroy(c);
    told->status = status;
    return NULL;
}

/// Whether rank 0 of two is waiting: a rank of three is refused.
static bool is_awaited(void) {
    tg_comm_options three = options_of("threads", "differ", 1, 3);
    tg_comm *c;
    three.timeout_ms = 1;
    assert_int_not_equal(tg_comm_create(&three, &c), TG_OK);
    return strstr(tg_last_error(), "rank 1 meets 3 ranks with heaps of ") &&
           strstr(tg_last_error(), "where 2 ranks with heaps of ");
}

/// A rank that does not fit is refused with the reason. The rank that was there goes on waiting.
static void threads_differ(void **state) {
    (void)state;
    tg_comm_options first = options_of("threads", "differ", 0, 2), other = first;
    pthread_t thread;
    tg_comm *c;
    assert_int_equal(pthread_create(&thread, NULL, be_first, &first), 0);
    while (!is_awaited()) continue;
    expect_refusal(&other, TG_ERROR_CONTRACT, "there are two of rank 0 at 'differ'");
    other.rank = 1;
    other.heap = 2 * HEAP;
    expect_refusal(&other, TG_ERROR_CONTRACT, "ranks with heaps of ");
    other.heap = HEAP;
    assert_int_equal(tg_comm_create(&other, &c), TG_OK);
    tg_comm_destroy(c);
    pthread_join(thread, NULL);
    assert_int_equal(told->status, TG_OK);
}

/// Nobody comes in time.
static void thread_alone(void **state) {
    (void)state;
    tg_comm_options o = options_of("threads", "alone", 1, 3);
    o.timeout_ms = SHORT_MS;
    expect_refusal(&o, TG_ERROR_RANK, "rank 1 waited 0.3 s at 'alone' for rank 0, which did not");
}

/// Heaps that no address space has.
static void no_room(void **state) {
    (void)state;
    tg_comm_options o = options_of("threads", "large", 0, 1);
    o.heap = (size_t)1 << 62;
    expect_refusal(&o, TG_ERROR_MEMORY, "tg_comm_create: 1 heaps of 4398046511104 MiB: ");
    o.ranks = 4;
    expect_refusal(&o, TG_ERROR_MEMORY, "out of memory");
    o = options_of("processes", place("large", false), 0, 1);
    o.heap = (size_t)1 << 62;
    expect_refusal(&o, TG_ERROR_INTERNAL, "at '");
}

/* ---- processes ------------------------------------------------------------------------------- */

/// Rank 0, and another one that does not fit it. Both get the reason.
static void expect_unlike(tg_comm_options other, int heaps, const char *text) {
    for (int port = 0; port < 2; port++) {
        const char *meet = place("unlike", port);
        tg_comm_options first = options_of("processes", meet, 0, 2);
        other.meet = meet;
        other.heap = (size_t)heaps * HEAP;
        start(0, &first);
        start(1, &other);
        end(0);
        end(1);
        for (int i = 0; i < 2; i++) expect_told(i, TG_ERROR_CONTRACT, text);
        if (!port) assert_int_equal(access(meet, F_OK), -1);
    }
}

static void processes_differ(void **state) {
    (void)state;
    expect_unlike(options_of("processes", NULL, 1, 3), 1, "rank 1 of 3 ranks meets rank 0 of 2");
    expect_unlike(options_of("processes", NULL, 2, 3), 1, "rank 2 of 3 ranks meets rank 0 of 2");
    expect_unlike(options_of("processes", NULL, 1, 2), 2, "rank 1 brings ");
}

static void two_of_one(void **state) {
    (void)state;
    for (int port = 0; port < 2; port++) {
        const char *meet = place("two", port);
        tg_comm_options first = options_of("processes", meet, 0, 3);
        tg_comm_options other = options_of("processes", meet, 1, 3);
        start(0, &first);
        start(1, &other);
        start(2, &other);
        for (int i = 0; i < 3; i++) end(i);
        for (int i = 0; i < 3; i++) expect_told(i, TG_ERROR_CONTRACT, "there are two of rank 1");
    }
}

/* ---- peers at a path ------------------------------------------------------------------------- */

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
    return a;
}

static int listen_at(const char *path) {
    struct sockaddr_un a = address_of(path);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(s, 8), 0);
    return s;
}

static int connect_to(const char *path) {
    struct sockaddr_un a = address_of(path);
    for (;;) {
        int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (connect(s, (struct sockaddr *)&a, sizeof a) == 0) return s;
        assert_true(errno == ENOENT || errno == ECONNREFUSED);
        close(s);
        usleep(1000);
    }
}

/// Sends a hello with a number of files.
static void say_hello(int s, const rt_hello *hello, size_t bytes, int files) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct iovec part = {(void *)(uintptr_t)hello, bytes};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    int fds[2] = {s, s};
    if (files) {
        m.msg_control = room;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)files);
        struct cmsghdr *head = CMSG_FIRSTHDR(&m);
        *head = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        head->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)files);
        memcpy(CMSG_DATA(head), fds, sizeof(int) * (size_t)files);
    }
    assert_int_equal(sendmsg(s, &m, MSG_NOSIGNAL), bytes);
}

/// Strangers change nothing: they close the connection, or send other messages than ranks do.
static void strangers(void **state) {
    (void)state;
    const char *meet = place("strangers", false);
    tg_comm_options first = options_of("processes", meet, 0, 2);
    tg_comm_options second = options_of("processes", meet, 1, 2);
    rt_hello hello = rt_comm_hello(&second, HEAP);
    start(0, &first);
    int said[3];
    close(connect_to(meet));
    for (int i = 0; i < 3; i++) said[i] = connect_to(meet);
    say_hello(said[0], &hello, sizeof hello, 0);
    say_hello(said[1], &hello, sizeof hello, 2);
    say_hello(said[2], &hello, 5, 1);
    char byte;
    for (int i = 0; i < 3; i++) assert_int_equal(recv(said[i], &byte, 1, 0), 0); // turned away
    for (int i = 0; i < 3; i++) close(said[i]);
    start(1, &second);
    for (int i = 0; i < 2; i++) end(i);
    for (int i = 0; i < 2; i++) expect_told(i, TG_OK, "");
}

/// A rank of another version gets the reason, and so does rank 0.
static void versions(void **state) {
    (void)state;
    const char *meet = place("versions", false);
    tg_comm_options first = options_of("processes", meet, 0, 2);
    tg_comm_options second = options_of("processes", meet, 1, 2);
    rt_hello hello = rt_comm_hello(&second, HEAP);
    char answer[RT_COMM_TEXT] = "";
    hello.control++;
    start(0, &first);
    int s = connect_to(meet);
    say_hello(s, &hello, sizeof hello, 1);
    assert_true(recv(s, answer, sizeof answer, 0) > 0);
    assert_non_null(strstr(answer, "a rank has another version of Tegula than rank 0"));
    close(s);
    end(0);
    expect_told(0, TG_ERROR_CONTRACT, "a rank has another version of Tegula than rank 0");
}

/// Rank 0 hangs up, before or after a rank's hello.
static void first_hangs_up(void **state) {
    (void)state;
    for (int hears = 0; hears < 2; hears++) {
        const char *meet = place("hangs", false);
        tg_comm_options second = options_of("processes", meet, 1, 2);
        char bytes[256];
        int listener = listen_at(meet);
        start(0, &second);
        int s = accept(listener, NULL, NULL);
        if (hears) assert_true(recv(s, bytes, sizeof bytes, 0) > 0);
        close(s);
        end(0);
        expect_told(0, TG_ERROR_RANK, "for rank 0, which did not come");
        close(listener);
        unlink(meet);
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

/// The socket of a group that has ended is replaced.
static void stale(void **state) {
    (void)state;
    const char *meet = place("stale", false);
    close(listen_at(meet));
    assert_int_equal(access(meet, F_OK), 0);
    tg_comm_options first = options_of("processes", meet, 0, 2);
    tg_comm_options second = options_of("processes", meet, 1, 2);
    start(0, &first);
    start(1, &second);
    for (int i = 0; i < 2; i++) end(i);
    for (int i = 0; i < 2; i++) expect_told(i, TG_OK, "");
    assert_int_equal(access(meet, F_OK), -1);
}

/// A place that others have, or that is none, stays as it is.
static void taken(void **state) {
    (void)state;
    char far[200];
    const char *meet = place("taken", false), *file = place("file", false);
    tg_comm_options o = options_of("processes", meet, 0, 2);
    int listener = listen_at(meet);
    expect_refusal(&o, TG_ERROR_INTERNAL, strerror(EADDRINUSE));
    assert_int_equal(access(meet, F_OK), 0);
    close(listener);
    unlink(meet);
    fclose(fopen(file, "w"));
    o.meet = file;
    expect_refusal(&o, TG_ERROR_INTERNAL, "rank 0: listening at '");
    assert_int_equal(access(file, F_OK), 0);
    snprintf(far, sizeof far, "%s/inside", file);
    o.meet = far;
    expect_refusal(&o, TG_ERROR_INTERNAL, "rank 0: listening at '");
    o.rank = 1;
    expect_refusal(&o, TG_ERROR_INTERNAL, "rank 1: connecting at '");
    unlink(file);
    memset(far, 'x', sizeof far - 1);
    far[sizeof far - 1] = 0;
    o.meet = far;
    for (o.rank = 0; o.rank < 2; o.rank++)
        expect_refusal(&o, TG_ERROR_ARGUMENT, "of a socket has more than 107 bytes");
}

/// Ports that are taken, and hosts that do not exist.
static void ports(void **state) {
    (void)state;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    char meet[200];
    int s = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(s, (struct sockaddr *)&a, n) || listen(s, 1), 0);
    assert_int_equal(getsockname(s, (struct sockaddr *)&a, &n), 0);
    snprintf(meet, sizeof meet, "127.0.0.1:%d", ntohs(a.sin_port));
    tg_comm_options o = options_of("processes", meet, 0, 2);
    expect_refusal(&o, TG_ERROR_ARGUMENT, "listening (rank 0 runs on that host) at '127.0.0.1:");
    close(s);
    memset(meet, 'a', 100); // longer than a name of a host may be
    strcpy(meet + 100, ":4000");
    for (o.rank = 0; o.rank < 2; o.rank++)
        expect_refusal(&o, TG_ERROR_ARGUMENT, "finding the host at '");
}

/// Whether this host has IPv6's loopback address.
static bool has_six(void) {
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int s = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = s >= 0 && bind(s, (struct sockaddr *)&a, sizeof a) == 0;
    if (s >= 0) close(s);
    return has;
}

/// Addresses of IPv6 stand in brackets.
static void brackets(void **state) {
    (void)state;
    char meet[64];
    snprintf(meet, sizeof meet, "[::1]%s", strrchr(place("", true), ':'));
    if (!has_six()) skip();
    tg_comm_options first = options_of("processes", meet, 0, 2);
    tg_comm_options second = options_of("processes", meet, 1, 2);
    start(0, &first);
    start(1, &second);
    for (int i = 0; i < 2; i++) end(i);
    for (int i = 0; i < 2; i++) expect_told(i, TG_OK, "");
}

/// No other rank comes. If the address excludes ranks of other hosts, the message says so.
static void alone(void **state) {
    (void)state;
    tg_comm_options o = options_of("processes", place("alone", false), 0, 2);
    o.timeout_ms = SHORT_MS;
    expect_refusal(&o, TG_ERROR_RANK, "rank 0 waited 0.3 s at '");
    o.meet = place("", true);
    expect_refusal(&o, TG_ERROR_RANK, "it listens at an address of its host alone, as '127.0.0.1:");
    o.rank = 1;
    expect_refusal(&o, TG_ERROR_RANK, "rank 1 waited 0.3 s at '127.0.0.1:");
    o.meet = place("alone", false);
    expect_refusal(&o, TG_ERROR_RANK, "for rank 0, which did not come");
}

int main(void) {
    static const char *const set[] = {"TG_RANK",      "TG_RANKS",           "TG_COMM",    "TG_MEET",
                                      "TG_COMM_HEAP", "TG_COMM_TIMEOUT_MS", "TG_RANK_KEY"};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) unsetenv(set[i]);
    told =
        mmap(NULL, MOST * sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED || !mkdtemp(folder)) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),        cmocka_unit_test(variables),
        cmocka_unit_test(threads_differ), cmocka_unit_test(thread_alone),
        cmocka_unit_test(no_room),        cmocka_unit_test(processes_differ),
        cmocka_unit_test(two_of_one),     cmocka_unit_test(strangers),
        cmocka_unit_test(versions),       cmocka_unit_test(first_hangs_up),
        cmocka_unit_test(stale),          cmocka_unit_test(taken),
        cmocka_unit_test(ports),          cmocka_unit_test(brackets),
        cmocka_unit_test(alone),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rmdir(folder);
    return failed;
}
