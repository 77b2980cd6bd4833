static struct ctl_table queue_table[] = {
	{ .procname = "queue_max", },
	{ }
};

static struct ctl_table net_table[] = {
	{ .procname = "queue_early", },
	{ }
};
