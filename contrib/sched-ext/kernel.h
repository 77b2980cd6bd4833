/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The little of the kernel that handoff.bpf.c needs. Types carry only the members that are read: the loader finds where
 * the running kernel has them (preserve_access_index), so no header is made from a kernel's BTF before.
 */
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;
typedef u32 __u32;
typedef u64 __u64;
typedef s32 __s32;
typedef s64 __s64;
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef __u16 __be16;
typedef u32 __be32;
typedef u32 __wsum;
typedef _Bool bool;

enum { false, true };

/* include/uapi/linux/bpf.h */
enum { BPF_MAP_TYPE_ARRAY = 2, BPF_MAP_TYPE_PERCPU_ARRAY = 6 };
enum { BPF_F_MMAPABLE = 1 << 10 };

/*
 * Only the names count: the loader puts the running kernel's values in (bpf_core_enum_value). SCX_ENQ_HEAD is 0x10 in
 * Linux 6.12 and 0x10000 in 7.3.
 */
enum scx_dsq_id_flags { SCX_DSQ_LOCAL = (1ULL << 63) | 2 };
enum scx_enq_flags { SCX_ENQ_WAKEUP = 1, SCX_ENQ_HEAD = 0x10000 };
enum scx_ent_flags { SCX_TASK_QUEUED = 1 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct cpumask {
	unsigned long bits[1];
};

struct sched_entity {
	u64 sum_exec_runtime;
};

struct sched_ext_entity {
	u32 flags;
	u32 weight;
	u64 slice;
	u64 dsq_vtime;
};

struct task_struct {
	s32 pid;
	const struct cpumask *cpus_ptr;
	struct sched_entity se;
	struct sched_ext_entity scx;
};

#pragma clang attribute pop

/* The loader matches members by name, and leaves the others of the kernel's table empty. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 prev_cpu, u64 wake_flags);
	void (*enqueue)(struct task_struct *p, u64 enq_flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*enable)(struct task_struct *p);
	s32 (*init)(void);
	u32 timeout_ms;
	char name[128];
};

struct scx_bpf_dsq_insert_vtime_args {
	u64 dsq_id;
	u64 slice;
	u64 vtime;
	u64 enq_flags;
};

/* Kernel functions, as Linux 6.19 and later have them. */
#define KERNEL(declaration) extern declaration __attribute__((section(".ksyms")))
KERNEL(s32 scx_bpf_create_dsq(u64 dsq_id, s32 node));
KERNEL(s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle));
KERNEL(void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags));
KERNEL(bool __scx_bpf_dsq_insert_vtime(struct task_struct *p, struct scx_bpf_dsq_insert_vtime_args *args));
KERNEL(bool scx_bpf_dsq_move_to_local(u64 dsq_id));
KERNEL(bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice));
KERNEL(bool scx_bpf_task_set_dsq_vtime(struct task_struct *p, u64 vtime));
KERNEL(s32 scx_bpf_task_cpu(const struct task_struct *p));
KERNEL(bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask));
