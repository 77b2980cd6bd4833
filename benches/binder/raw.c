/* The floor of a call on the Binder driver: a ping-pong in C with nothing between it and the ioctl.
 *
 *   raw serve DEVICE          answers each call with the bytes that it brought, from where they arrived
 *   raw call DEVICE BYTES     for each line "CALLS" on standard input: so many calls, then their median
 *
 * One ioctl a call on the caller's side: the former reply's buffer is given back with the next call. The
 * server needs two, since the driver reports that it took a reply before it waits for the next call. */
#include <errno.h>
#include <fcntl.h>
#include <linux/android/binder.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static int driver;

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

struct __attribute__((packed)) sent {
    uint32_t free_command;
    binder_uintptr_t freed;
    uint32_t command;
    struct binder_transaction_data data;
};

/* Says `length` bytes at `what` and hears into `returns`; gives how many bytes were heard. */
static size_t talk(const void *what, size_t length, void *returns, size_t room) {
    struct binder_write_read both = {
        .write_size = length, .write_buffer = (uintptr_t)what, .read_size = room, .read_buffer = (uintptr_t)returns};
    while (ioctl(driver, BINDER_WRITE_READ, &both) < 0)
        if (errno != EINTR)
            fail("BINDER_WRITE_READ");
    return both.read_consumed;
}

/* Looks for a transaction or a reply in what was heard; 0 if there is none. */
static int find(const char *at, const char *end, struct binder_transaction_data *data) {
    while (at < end) {
        uint32_t command;
        memcpy(&command, at, 4);
        at += 4;
        if (command == BR_TRANSACTION || command == BR_REPLY) {
            memcpy(data, at, sizeof *data);
            return 1;
        }
        if (command == BR_DEAD_REPLY || command == BR_FAILED_REPLY) {
            errno = EPIPE;
            fail("the call");
        }
        at += _IOC_SIZE(command);
    }
    return 0;
}

static void serve(void) {
    char returns[256];
    uint32_t enter = BC_ENTER_LOOPER;
    int manager = 0;
    if (ioctl(driver, BINDER_SET_CONTEXT_MGR, &manager) < 0)
        fail("BINDER_SET_CONTEXT_MGR");
    talk(&enter, 4, NULL, 0);
    puts("ready");
    fflush(stdout);
    struct {
        uint32_t command;
        struct binder_transaction_data data;
        uint32_t free_command;
        binder_uintptr_t freed;
    } __attribute__((packed)) answer = {.command = BC_REPLY, .free_command = BC_FREE_BUFFER};
    size_t length = 0;
    for (;;) {
        struct binder_transaction_data data;
        size_t heard = talk(&answer, length, returns, sizeof returns);
        length = 0;
        if (!find(returns, returns + heard, &data))
            continue;
        memset(&answer.data, 0, sizeof answer.data);
        answer.data.data_size = data.data_size;
        answer.data.data.ptr.buffer = data.data.ptr.buffer;
        answer.freed = data.data.ptr.buffer;
        length = sizeof answer;
    }
}

static int ascending(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void call(size_t bytes) {
    char returns[256], line[32];
    unsigned char *payload = calloc(1, bytes + 8);
    uint64_t *times = calloc(1000000, sizeof *times);
    struct sent request = {.free_command = BC_FREE_BUFFER, .command = BC_TRANSACTION};
    if (!payload || !times)
        fail("calloc");
    request.data.code = 1;
    request.data.flags = TF_ACCEPT_FDS;
    request.data.data_size = bytes;
    request.data.data.ptr.buffer = (uintptr_t)payload;
    while (fgets(line, sizeof line, stdin)) {
        size_t calls = strtoul(line, NULL, 10);
        if (calls == 0 || calls > 1000000)
            return;
        for (size_t index = 0; index < calls; index++) {
            struct binder_transaction_data data;
            uint64_t begin = now();
            /* Nothing to give back yet: begin behind that command. */
            const char *from = (const char *)&request + (request.freed ? 0 : offsetof(struct sent, command));
            size_t length = sizeof request - (size_t)(from - (const char *)&request);
            payload[0] = (unsigned char)index;
            size_t heard = talk(from, length, returns, sizeof returns);
            while (!find(returns, returns + heard, &data))
                heard = talk(NULL, 0, returns, sizeof returns);
            if (data.data_size != bytes || *(const unsigned char *)data.data.ptr.buffer != (unsigned char)index) {
                errno = EPROTO;
                fail("the reply");
            }
            request.freed = data.data.ptr.buffer;
            times[index] = now() - begin;
        }
        qsort(times, calls, sizeof *times, ascending);
        printf("%llu\n", (unsigned long long)times[calls / 2]);
        fflush(stdout);
    }
}

int main(int count, char **arguments) {
    if (count < 3)
        return 2;
    driver = open(arguments[2], O_RDWR | O_CLOEXEC);
    if (driver < 0)
        fail(arguments[2]);
    if (mmap(NULL, 4 << 20, PROT_READ, MAP_PRIVATE | MAP_NORESERVE, driver, 0) == MAP_FAILED)
        fail("mmap");
    if (strcmp(arguments[1], "serve") == 0)
        serve();
    else if (count == 4)
        call(strtoul(arguments[3], NULL, 10));
    return 0;
}
