#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_reset(struct queue *q)
{
	stop(q);
	free_slots(q);
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

