#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_init(struct queue *q)
{
	q->head = 0;
	q->tail = 0;
	q->limit = default_limit;
	return 0;
}

static int queue_push(struct queue *q, void *item)
{
	int slot;

	spin_lock(&q->lock);
	slot = q->tail % q->limit;
	q->slots[slot] = item;
	q->tail++;
	spin_unlock(&q->lock);
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

static int queue_stat(struct seq_file *m, struct queue *q)
{
	seq_printf(m, "head %u\n", q->head);
	seq_printf(m, "tail %u\n", q->tail);
	return 0;
}

