#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_drain(struct queue *q)
{
	int n;

	lock_queue(q);
	n = take_one(q);
	unlock_queue(q);
	account(q, n);
	if (n)
		again(q);
	lock_queue(q);
	n = take_one(q);
	unlock_queue(q);
	account(q, n);
	return n;
}

static int queue_stat(struct seq_file *m, struct queue *q)
{
	seq_printf(m, "head %u\n", q->head);
	seq_printf(m, "tail %u\n", q->tail);
	return 0;
}

