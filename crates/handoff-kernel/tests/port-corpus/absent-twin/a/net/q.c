#include <linux/queue.h>
#include <linux/spinlock.h>

static int queue_send_v4(struct queue *q)
{
	struct packet *p;

	p = alloc_packet(q->limit);
	if (!p)
		return -ENOMEM;
	p->queue = q;
	queue_tail(q, p);
	return 0;
}

static int queue_send_v6(struct queue *q)
{
	struct packet *p;

	p = alloc_packet(q->limit);
	if (!p)
		return -ENOMEM;
	p->queue = q;
	queue_tail(q, p);
	return 0;
}

static int queue_stat(struct seq_file *m, struct queue *q)
{
	seq_printf(m, "head %u\n", q->head);
	seq_printf(m, "tail %u\n", q->tail);
	return 0;
}

