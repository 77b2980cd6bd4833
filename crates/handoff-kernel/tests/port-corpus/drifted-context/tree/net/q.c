#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_init(struct queue *q)
{
	q->head = 0;
	q->tail = 0;
	q->limit = default_limit;
	return 0;
}

static void queue_wake(struct queue *q)
{
	struct task *t = q->waiter;

	if (!t)
		return;
	q->wakes++;
	q->last = jiffies;
	account_wake(q, t);
	wake_up_process(t);
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

