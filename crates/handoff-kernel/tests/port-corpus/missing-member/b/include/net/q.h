struct queue {
	spinlock_t lock;
	u32 head;
	u32 tail;
	u32 burst;
	u32 early_drops;
	u32 corked;
	u32 limit;
	void *slots[];
};
