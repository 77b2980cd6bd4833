#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_push(struct queue *q, void *item)
{
	int slot;

	spin_lock(&q->lock);
	slot = q->tail % q->limit;
	q->slots[slot] = item;
	q->tail++;
	q->pushed++;
	spin_unlock(&q->lock);
	return slot;
}

static int queue_stat(struct seq_file *m, struct queue *q)
{
	seq_printf(m, "head %u\n", q->head);
	seq_printf(m, "tail %u\n", q->tail);
	return 0;
}

