/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the scheduler and those who tell it share. */
#pragma once

/* Entries of the map: thread ids are below 32768 unless pid_max was raised. */
#define TOLD_THREADS 32768

/* An array map rounds its values up to 8 bytes, so this one has them. */
struct told {
	/* The thread that this one calls and then waits for; 0: none. */
	long long callee;
};

struct counts {
	/* A called thread was queued on its caller's CPU, at the head. */
	unsigned long long called;
	/* It could not be: it may not run there, or was woken from another CPU. */
	unsigned long long elsewhere;
	/* It was the next to run there, with what its caller left. */
	unsigned long long taken;
	/* All that was queued in the order of virtual time. */
	unsigned long long ordinary;
	/* Threads that began to run. */
	unsigned long long switches;
};
