static struct ctl_table queue_table[] = {
	{
		.procname	= "queue_max",
		.data		= &sysctl_queue_max,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_dointvec,
	},
	{
		.procname	= "queue_old",
		.data		= &sysctl_queue_old,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_doulongvec,
	},
	{
		.procname	= "queue_cork",
		.data		= &sysctl_queue_cork,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_dointvec_minmax,
	},
	{ }
};

static struct ctl_table queue_net_table[] = {
	{
		.procname	= "net_max",
		.data		= &sysctl_net_max,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_dointvec,
	},
	{
		.procname	= "net_burst",
		.data		= &sysctl_net_burst,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_dointvec,
	},
	{
		.procname	= "queue_early",
		.data		= &sysctl_queue_early,
		.maxlen		= sizeof(int),
		.mode		= 0644,
		.proc_handler	= proc_dointvec,
	},
	{ }
};

