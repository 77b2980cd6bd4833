enum {
	MIB_NUM = 0,
	MIB_SENT,		/* SENT */
	MIB_RECV,		/* RECV */
	MIB_FAILED,		/* FAILED */
	MIB_PRUNED,		/* PRUNED */
	__MIB_MAX
};
