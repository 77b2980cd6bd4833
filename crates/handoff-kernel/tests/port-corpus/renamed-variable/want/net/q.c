#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_init(struct queue *q)
{
	q->head = 0;
	q->tail = 0;
	q->limit = default_limit;
	return 0;
}

static int queue_push(struct queue *ring, void *item)
{
	int slot;

	spin_lock(&ring->lock);
	slot = ring->tail % ring->limit;
	ring->slots[slot] = item;
	ring->tail++;
	ring->pushed++;
	spin_unlock(&ring->lock);
	return slot;
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

