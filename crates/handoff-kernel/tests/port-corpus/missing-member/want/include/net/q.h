struct stack {
	spinlock_t lock;
	u32 limit;
	void *slots[];
};

struct queue {
	spinlock_t lock;
	u32 head;
	u32 tail;
	u32 corked;
	u32 limit;
	void *slots[];
};
