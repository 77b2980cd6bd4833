#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_steer(struct queue *q)
{
	int cpu = q->cpu;

	if (cpu_online(cpu))
		set_target(q, cpu);
	q->steered++;
	return cpu;
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

