/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * told OBJECT -- COMMAND...: runs a command under the scheduler that is told, and ends with its status.
 *
 * The command inherits the map, as the descriptor that HANDOFF_TOLD names. What the scheduler counted goes to the file that
 * TOLD_COUNTS names, as a line of JSON. The scheduler goes when this process ends, however it ends.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include "told.h"

#define FAILED 125 /* as env(1): it was not the command that failed */

static int fail(const char *doing)
{
	fprintf(stderr, "told: cannot %s: %s\n", doing, strerror(errno));
	return FAILED;
}

static int fd_of(struct bpf_object *object, const char *map)
{
	return bpf_object__find_map_fd_by_name(object, map);
}

/* The sum over all CPUs. */
static int read_counts(int map, struct counts *sum)
{
	int cpus = libbpf_num_possible_cpus();
	unsigned int zero = 0;
	struct counts *each = cpus > 0 ? calloc(cpus, sizeof(*each)) : NULL;

	memset(sum, 0, sizeof(*sum));
	if (!each || bpf_map_lookup_elem(map, &zero, each)) {
		free(each);
		return -1;
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		sum->called += each[cpu].called;
		sum->elsewhere += each[cpu].elsewhere;
		sum->taken += each[cpu].taken;
		sum->ordinary += each[cpu].ordinary;
		sum->switches += each[cpu].switches;
	}
	free(each);
	return 0;
}

static int write_counts(const char *file, const struct counts *sum)
{
	FILE *out = fopen(file, "w");

	if (!out)
		return -1;
	fprintf(out, "{\"called\": %llu, \"elsewhere\": %llu, \"taken\": %llu, \"ordinary\": %llu, \"switches\": %llu}\n",
		sum->called, sum->elsewhere, sum->taken, sum->ordinary, sum->switches);
	return fclose(out);
}

int main(int argc, char **argv)
{
	const char *file = getenv("TOLD_COUNTS");
	struct bpf_object *object;
	struct bpf_link *link;
	struct counts sum;
	char number[16];
	int map, status;
	pid_t child;

	if (argc < 4 || strcmp(argv[2], "--")) {
		fprintf(stderr, "usage: told OBJECT -- COMMAND...\n");
		return FAILED;
	}
	object = bpf_object__open_file(argv[1], NULL);
	if (!object)
		return fail("open the object");
	if (bpf_object__load(object))
		return fail("load the object");
	link = bpf_map__attach_struct_ops(bpf_object__find_map_by_name(object, "handoff"));
	if (!link)
		return fail("make it the scheduler");

	/* A copy without close-on-exec. */
	map = dup(fd_of(object, "told"));
	if (map < 0)
		return fail("copy the map's descriptor");
	snprintf(number, sizeof(number), "%d", map);
	setenv("HANDOFF_TOLD", number, 1);

	child = fork();
	if (child < 0)
		return fail("fork");
	if (!child) {
		execvp(argv[3], argv + 3);
		_exit(fail(argv[3]));
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return fail("wait");
	if (file && (read_counts(fd_of(object, "counts"), &sum) || write_counts(file, &sum)))
		return fail("keep the counts");
	bpf_link__destroy(link);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
