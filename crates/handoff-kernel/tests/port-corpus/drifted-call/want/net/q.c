#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_kick(struct queue *q, u32 flags)
{
	prepare(q);
	queue_xmit(q, flags, GFP_ATOMIC, goal);
	finish(q);
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

