#include <linux/queue.h>

static int queue_send(struct queue *q, struct item *item)
{
	struct path *path;
	int slot;

	slot = queue_slot(q, item);
	mutex_lock(&q->path_lock);
	path = (struct path *)item->next;
	mutex_unlock(&q->path_lock);
	if (path_is_down(path, slot))
		return -EPIPE;
	return path_send(path, item, slot);
}

static void queue_stop(struct queue *q)
{
	q->stopped = 1;
}
