/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A sched_ext scheduler that is told who calls whom.
 *
 * Before a thread blocks in a call it writes the callee's thread id into its own entry of `told`, which it has mapped: a
 * store, no system call. When that thread then wakes exactly the callee, the callee goes to the head of this CPU's queue,
 * and as the caller blocks it takes over the caller's CPU, what is left of its slice, its place in the order and its weight.
 * The reply hands them back in the same way, less what the callee used: the caller pays for both, and two threads that
 * call each other get no more than one. Nothing is concluded from the flags of a wake-up.
 *
 * All else is one queue in the order of virtual time, weighted by nice, with a slice of 3 ms.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "told.h"

/* The kernel lets no other program be a scheduler. */
char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* A name of the kernel's, with the value that the running kernel has for it. */
#define OF_KERNEL(type, name) bpf_core_enum_value(enum type, name)
#define LOCAL OF_KERNEL(scx_dsq_id_flags, SCX_DSQ_LOCAL)

#define QUEUE 0
#define SLICE 3000000ULL

/* Who calls whom, by the caller's thread id. Mapped by those who call. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, TOLD_THREADS);
	__type(key, u32);
	__type(value, struct told);
} told SEC(".maps");

/* The weight that a callee runs with for its caller, by its thread id; 0: its own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, TOLD_THREADS);
	__type(key, u32);
	__type(value, u32);
} weights SEC(".maps");

/* A CPU: what its running thread had run before, and what the one before left to its callee. */
struct cpu {
	u64 started;
	u64 slice;
	u64 vtime;
	u32 weight;
	s32 callee;
};
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct cpu);
} cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counts);
} counts SEC(".maps");

static u64 vtime_now;

static bool before(u64 a, u64 b)
{
	return (s64)(a - b) < 0;
}

static struct counts *count(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&counts, &zero);
}

/* The callee that a thread has told, or 0. An entry is written by its thread, or whoever may open the map. */
static s32 callee_of(s32 caller)
{
	u32 index = caller;
	struct told *entry = bpf_map_lookup_elem(&told, &index);

	return entry ? entry->callee : 0;
}

/* Whether `p` is woken by the thread that has told to call it. */
static bool is_called(struct task_struct *p)
{
	struct task_struct *waker = bpf_get_current_task_btf();

	return callee_of(waker->pid) == p->pid;
}

SEC("struct_ops/handoff_select_cpu")
s32 BPF_PROG(handoff_select_cpu, struct task_struct *p, s32 prev_cpu, u64 wake_flags)
{
	s32 cpu = bpf_get_smp_processor_id();
	bool is_idle = false;

	if (is_called(p) && bpf_cpumask_test_cpu(cpu, p->cpus_ptr))
		return cpu;
	cpu = scx_bpf_select_cpu_dfl(p, prev_cpu, wake_flags, &is_idle);
	if (is_idle)
		scx_bpf_dsq_insert(p, LOCAL, SLICE, 0);
	return cpu;
}

SEC("struct_ops/handoff_enqueue")
void BPF_PROG(handoff_enqueue, struct task_struct *p, u64 enq_flags)
{
	struct scx_bpf_dsq_insert_vtime_args args = { QUEUE, SLICE, p->scx.dsq_vtime, enq_flags };
	struct counts *counted = count();

	/* A wake-up for another CPU may be carried out there, beside a thread that has nothing to do with it. */
	if ((enq_flags & OF_KERNEL(scx_enq_flags, SCX_ENQ_WAKEUP)) && is_called(p)) {
		if (scx_bpf_task_cpu(p) == bpf_get_smp_processor_id()) {
			if (counted)
				counted->called++;
			scx_bpf_dsq_insert(p, LOCAL, SLICE, enq_flags | OF_KERNEL(scx_enq_flags, SCX_ENQ_HEAD));
			return;
		}
		if (counted)
			counted->elsewhere++;
	}
	if (counted)
		counted->ordinary++;
	/* Sleep earns no more than a slice. */
	if (before(args.vtime, vtime_now - SLICE))
		args.vtime = vtime_now - SLICE;
	__scx_bpf_dsq_insert_vtime(p, &args);
}

SEC("struct_ops/handoff_dispatch")
void BPF_PROG(handoff_dispatch, s32 cpu, struct task_struct *prev)
{
	/* Alone, it goes on; the core would give it a slice of its own, of 20 ms. */
	if (!scx_bpf_dsq_move_to_local(QUEUE) && prev && (prev->scx.flags & OF_KERNEL(scx_ent_flags, SCX_TASK_QUEUED)))
		scx_bpf_task_set_slice(prev, SLICE);
}

SEC("struct_ops/handoff_running")
void BPF_PROG(handoff_running, struct task_struct *p)
{
	u32 zero = 0, index = p->pid, *weight;
	struct cpu *here = bpf_map_lookup_elem(&cpus, &zero);
	struct counts *counted = count();

	if (!here || !counted)
		return;
	if (here->callee == p->pid) {
		/* A slice of 0 would have the core give a new one. */
		scx_bpf_task_set_slice(p, here->slice ? here->slice : 1);
		scx_bpf_task_set_dsq_vtime(p, here->vtime);
		weight = bpf_map_lookup_elem(&weights, &index);
		if (weight)
			*weight = here->weight;
		counted->taken++;
	}
	/* Where another one runs first, nothing is left. */
	here->callee = 0;
	here->started = p->se.sum_exec_runtime;
	counted->switches++;
	if (before(vtime_now, p->scx.dsq_vtime))
		vtime_now = p->scx.dsq_vtime;
}

SEC("struct_ops/handoff_stopping")
void BPF_PROG(handoff_stopping, struct task_struct *p, bool runnable)
{
	u32 zero = 0, index = p->pid, *weight = bpf_map_lookup_elem(&weights, &index);
	u32 pays = weight && *weight ? *weight : p->scx.weight;
	struct cpu *here = bpf_map_lookup_elem(&cpus, &zero);
	u64 vtime;

	if (!here)
		return;
	vtime = p->scx.dsq_vtime + (p->se.sum_exec_runtime - here->started) * 100 / (pays ? pays : 1);
	scx_bpf_task_set_dsq_vtime(p, vtime);
	if (runnable)
		return;
	here->callee = callee_of(p->pid);
	here->slice = p->scx.slice;
	here->vtime = vtime;
	here->weight = pays;
	/* What it was lent ends with its call. */
	if (weight)
		*weight = 0;
}

SEC("struct_ops/handoff_enable")
void BPF_PROG(handoff_enable, struct task_struct *p)
{
	scx_bpf_task_set_dsq_vtime(p, vtime_now);
}

SEC("struct_ops.s/handoff_init")
s32 BPF_PROG(handoff_init)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC(".struct_ops.link")
struct sched_ext_ops handoff = {
	.select_cpu = (void *)handoff_select_cpu,
	.enqueue = (void *)handoff_enqueue,
	.dispatch = (void *)handoff_dispatch,
	.running = (void *)handoff_running,
	.stopping = (void *)handoff_stopping,
	.enable = (void *)handoff_enable,
	.init = (void *)handoff_init,
	.timeout_ms = 10000,
	.name = "handoff_told",
};
