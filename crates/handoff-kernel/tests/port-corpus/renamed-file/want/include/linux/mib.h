enum {
	MIB_NUM = 0,
	MIB_SENT,		/* SENT */
	MIB_RECV,		/* RECV */
	MIB_FAILED,		/* FAILED */
	MIB_PRUNED,		/* PRUNED */
	MIB_CORKED,		/* CORKED */
	__MIB_MAX
};
