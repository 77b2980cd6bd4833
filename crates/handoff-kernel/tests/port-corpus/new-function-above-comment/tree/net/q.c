#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_init(struct queue *q)
{
	q->head = 0;
	q->tail = 0;
	q->limit = default_limit;
	return 0;
}

static int queue_stat(struct seq_file *m, struct queue *q)
{
	seq_printf(m, "head %u\n", q->head);
	seq_printf(m, "tail %u\n", q->tail);
	return 0;
}

/**
 * queue_wake - wake who waits
 * @q: the queue
 */
static void queue_wake(struct queue *q)
{
	struct task *t = q->waiter;

	if (!t)
		return;
	trace_queue_wake(q, t);
	q->wakes++;
	wake_up_process(t);
	put_task(t);
}

