#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_stat(struct seq_file *m, struct queue *q)
{
	seq_printf(m, "head %u\n", q->head);
	seq_printf(m, "tail %u\n", q->tail);
	return 0;
}

#ifndef CONFIG_SMP
static inline int queue_balance(struct queue *q)
{
	return 0;
}
#else
static int queue_balance(struct queue *q)
{
	int cpu = pick_cpu(q);

	if (cpu < 0)
		return 0;
	move_queue(q, cpu);
	q->moves++;
	kick(cpu);
	return 1;
}

#endif
