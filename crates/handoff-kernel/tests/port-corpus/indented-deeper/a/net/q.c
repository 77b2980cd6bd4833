#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_flush(struct queue *q)
{
	if (q->busy)
		return -EBUSY;
	flush_slots(q);
	reset_heads(q);
	notify_waiters(q);
	return 0;
}

static void * queue_pop(struct queue *q)
{
	void *item;

	spin_lock(&q->lock);
	item = q->slots[q->head % q->limit];
	q->head++;
	spin_unlock(&q->lock);
	return item;
}

