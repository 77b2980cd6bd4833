extern int key_limit_00;
extern int key_limit_01;
extern int key_limit_02;
extern int key_limit_03;
extern int key_limit_04;
extern int key_limit_05;
extern int key_limit_06;
extern int key_limit_07;
extern int key_limit_08;
extern int key_limit_09;
extern int key_limit_10;
extern int key_limit_11;
extern int key_limit_12;
extern int key_limit_13;
extern int key_limit_14;
extern int key_limit_15;
extern int key_limit_16;
extern int key_limit_17;
extern int key_limit_18;
extern int key_limit_19;
extern int key_limit_20;
extern int key_limit_21;
extern int key_limit_22;
extern int key_limit_23;
extern int key_limit_24;
extern int key_limit_25;
extern int key_limit_26;
extern int key_limit_27;
extern int key_limit_28;
extern int key_limit_29;
extern int key_limit_30;
extern int key_limit_31;
extern int key_limit_32;
extern int key_limit_33;
extern int key_limit_34;
extern int key_limit_35;
extern int key_limit_36;
extern int key_limit_37;
extern int key_limit_38;
extern int key_limit_39;

static void key_get(struct key *key)
{
	if (!key->owner)
		return;

	switch (key->kind) {
	case KEY_FILE:
		file_hold(key->file); /* with a barrier */
		break;
	case KEY_GROUP:
		group_hold(key); /* with a barrier */
		break;
	}
}

static void key_drop(struct key *key)
{
	if (!key->owner) {
		warn_once(key);
		return;
	}

	switch (key->kind) {
	case KEY_FILE:
		file_put(key->file);
		break;
	case KEY_GROUP:
		group_put(key->group);
		break;
	}
}

static int key_compare(struct key *a, struct key *b)
{
	return a->owner == b->owner && a->kind == b->kind;
}
